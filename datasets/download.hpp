// Files from addresses, with curl. What was already received survives an interruption in PATH.partial and is not sent again.
#pragma once
#include <string>

namespace megatoken {

/// Brings all of `url` into `partial`, continuing what is there; the caller checks it and moves it to its name.
/// Throws an environment Error with curl's last words: offline, not found, disk full.
void download(const std::string& url, const std::string& partial);

}  // namespace megatoken
