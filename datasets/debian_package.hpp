// Debian packages as a source of files: downloaded with apt-get, unpacked with dpkg-deb, never installed. Needs no root.
#pragma once
#include <string>
#include <vector>

namespace megatoken {

/// Downloads the packages into `work` and unpacks them all into WORK/root, which it returns. When the system has no package lists, or
/// outdated ones, lists are fetched into `work` first; the system's own stay as they are.
/// Throws an environment Error with the last words of apt-get: offline, no Debian, package unknown.
std::string unpack_debian_packages(const std::vector<std::string>& packages, const std::string& work);

/// Unpacks every .deb file of `folder` into `root`.
void unpack_deb_files(const std::string& folder, const std::string& root);

}  // namespace megatoken
