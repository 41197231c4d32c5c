# The libraries psp_constants and psp_constants_c: the numbers of sql/constants.txt in C++ and in C.
#     #include "embedded/constants.h"      // psp::kLockClass, an int; in C: kLockClass
include(${CMAKE_CURRENT_LIST_DIR}/read_constants.cmake)
set(PSP_CONSTANTS ${CMAKE_SOURCE_DIR}/sql/constants.txt)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PSP_CONSTANTS})

psp_read_constants(${PSP_CONSTANTS} names)
set(lines "")
set(c_lines "")
foreach(name IN LISTS names)
  psp_cpp_constant(${name} constant)
  string(APPEND lines "inline constexpr int ${constant} = ${${name}};\n")
  string(APPEND c_lines "  ${constant} = ${${name}},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/constants_include/embedded/constants.h @ONLY CONTENT
"// Generated from sql/constants.txt. Change that.
#pragma once

namespace psp {

@lines@
}  // namespace psp
")
add_library(psp_constants INTERFACE)
target_include_directories(psp_constants INTERFACE ${CMAKE_BINARY_DIR}/constants_include)

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/constants_c_include/embedded/constants.h @ONLY CONTENT
"// Generated from sql/constants.txt. Change that.
#pragma once

enum {
@c_lines@};
")
add_library(psp_constants_c INTERFACE)
target_include_directories(psp_constants_c INTERFACE ${CMAKE_BINARY_DIR}/constants_c_include)
