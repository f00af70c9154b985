// Which data folders a command looks in: --data, then the one named by MEGATOKEN_DATA (used read-only), then data/.
#pragma once
#include <string>
#include <vector>

namespace megatoken {

/// Where `data fetch` writes: --data or data/.
std::string own_data_folder(const std::string& option);

/// In the order in which names are looked up. Throws a usage Error when a folder that was named does not exist.
std::vector<std::string> data_folders(const std::string& option);

}  // namespace megatoken
