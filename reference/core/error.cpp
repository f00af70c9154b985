#include "reference/core/error.hpp"

#include <string_view>

namespace megatoken {

Error::Error(ErrorKind kind, std::string message, std::string hint, std::source_location place)
    : kind_(kind), message_(std::move(message)), hint_(std::move(hint)) {
  std::string_view file = place.file_name();
  if (auto slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  place_ = format("{}:{}", file, place.line());
  text_ = hint_.empty() ? message_ : message_ + "; " + hint_;
}

}  // namespace megatoken
