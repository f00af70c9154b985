# megatoken_embed(FLOOR FILE SYMBOL): FILE becomes `const std::string_view megatoken::SYMBOL` in that floor, so that programs need no files at run time.
function(megatoken_embed floor file symbol)
  file(READ ${CMAKE_SOURCE_DIR}/${file} content)
  set(source ${CMAKE_BINARY_DIR}/embedded/${symbol}.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[#include <string_view>
namespace megatoken {
extern const std::string_view @symbol@;
const std::string_view @symbol@ = R"megatoken(@content@)megatoken";
}
]])
  target_sources(floor_${floor} PRIVATE ${source})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
endfunction()
