# For PspConstants.cmake and embed_sql_script.cmake.

# psp_read_constants(sql/constants.txt names): sets a variable for each constant, and the list of their names.
function(psp_read_constants file names)
  file(STRINGS "${file}" lines REGEX "^[A-Z]")
  set(found)
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^([A-Z][A-Z_]*) ([0-9]+)$")
      message(FATAL_ERROR "${file}: '${line}' is not NAME VALUE")
    endif()
    set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2} PARENT_SCOPE)
    list(APPEND found ${CMAKE_MATCH_1})
  endforeach()
  set(${names} ${found} PARENT_SCOPE)
endfunction()

# psp_cpp_constant(LOCK_CLASS name): sets name to kLockClass. Any other characters than letters and digits divide words.
function(psp_cpp_constant text name)
  set(constant "k")
  string(REGEX MATCHALL "[A-Za-z0-9]+" words "${text}")
  foreach(word IN LISTS words)
    string(SUBSTRING "${word}" 0 1 first)
    string(SUBSTRING "${word}" 1 -1 rest)
    string(TOUPPER "${first}" first)
    string(TOLOWER "${rest}" rest)
    string(APPEND constant "${first}${rest}")
  endforeach()
  set(${name} ${constant} PARENT_SCOPE)
endfunction()
