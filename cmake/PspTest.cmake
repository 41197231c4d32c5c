# psp_test(name SOURCES a_test.cc ... LIBS psp_common ...)
# One gtest executable (gmock included) in bin/tests, and one ctest entry with a time limit for each of its cases. Its own sources
# are not optimised: compiling them takes longer than running them, half as long without. OPTIMISED: one that runs for long.
find_package(GTest REQUIRED)
include(GoogleTest)

function(psp_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMISED" "TIMEOUT_S" "SOURCES;LIBS")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "psp_test(${name}): SOURCES is missing, or unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT_S)
    set(arg_TIMEOUT_S 60)
  endif()
  add_executable(${name} ${arg_SOURCES})
  if(NOT arg_OPTIMISED AND PSP_SANITIZE STREQUAL "off")
    target_compile_options(${name} PRIVATE -O0)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gmock GTest::gtest_main)
  # Helpers of several tests have the same names.
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests UNITY_BUILD OFF)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${arg_TIMEOUT_S})
endfunction()
