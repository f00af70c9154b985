# Finds every library, first in MEGATOKEN_DEPS (filled by ./run deps --prefix DIR), then in the system.
# megatoken::libraries is what all floors see; gtest and benchmark only what asks for them.
if(MEGATOKEN_DEPS)
  list(PREPEND CMAKE_PREFIX_PATH ${MEGATOKEN_DEPS}/usr ${MEGATOKEN_DEPS})
  include_directories(SYSTEM ${MEGATOKEN_DEPS}/usr/include)
endif()

add_library(megatoken_libraries INTERFACE)
add_library(megatoken::libraries ALIAS megatoken_libraries)

find_package(ZLIB REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(HDF5 REQUIRED COMPONENTS C)
target_include_directories(megatoken_libraries SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(megatoken_libraries INTERFACE ${HDF5_C_LIBRARIES} ZLIB::ZLIB Eigen3::Eigen ${CMAKE_DL_LIBS})

find_package(GTest REQUIRED)
add_library(megatoken::gtest INTERFACE IMPORTED)
target_link_libraries(megatoken::gtest INTERFACE GTest::gmock GTest::gtest_main)
find_package(benchmark REQUIRED)
add_library(megatoken::benchmark INTERFACE IMPORTED)
target_link_libraries(megatoken::benchmark INTERFACE benchmark::benchmark)
