# Third-party libraries, all of them Debian packages (tools/apt-packages.txt), each as one imported target.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

pkg_check_modules(psp_pqxx REQUIRED IMPORTED_TARGET libpqxx)
pkg_check_modules(psp_jemalloc REQUIRED IMPORTED_TARGET jemalloc)
pkg_check_modules(psp_pq REQUIRED IMPORTED_TARGET libpq)
pkg_check_modules(psp_zmq REQUIRED IMPORTED_TARGET libzmq cppzmq)
# zmq.h needs no header of libzmq's own libraries. One of those flags is an -isystem, which CMake places elsewhere
# when it runs for the second time: everything would be built twice.
set_target_properties(PkgConfig::psp_zmq PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "" INTERFACE_COMPILE_OPTIONS "")
pkg_check_modules(psp_yaml_cpp REQUIRED IMPORTED_TARGET yaml-cpp)
add_library(psp::pqxx ALIAS PkgConfig::psp_pqxx)
add_library(psp::pq ALIAS PkgConfig::psp_pq)
add_library(psp::zmq ALIAS PkgConfig::psp_zmq)
add_library(psp::yaml_cpp ALIAS PkgConfig::psp_yaml_cpp)

# PostgreSQL's parser as a library. Its results' messages are protobuf-c's; it contains what reads them.
find_path(PSP_PG_QUERY_INCLUDE pg_query/pg_query.pb-c.h REQUIRED)
find_path(PSP_PROTOBUF_C_INCLUDE protobuf-c/protobuf-c.h REQUIRED)
find_library(PSP_PG_QUERY_LIBRARY pg_query REQUIRED)
add_library(psp_pg_query INTERFACE)
target_include_directories(psp_pg_query SYSTEM INTERFACE ${PSP_PG_QUERY_INCLUDE} ${PSP_PROTOBUF_C_INCLUDE})
target_link_libraries(psp_pg_query INTERFACE ${PSP_PG_QUERY_LIBRARY})
add_library(psp::pg_query ALIAS psp_pg_query)

# Header-only: asio without Boost.
find_path(PSP_ASIO_INCLUDE asio.hpp REQUIRED)
add_library(psp_asio INTERFACE)
target_include_directories(psp_asio SYSTEM INTERFACE ${PSP_ASIO_INCLUDE})
# Whether asio uses aligned_alloc would depend on which header a file includes first, and one file's memory be freed in
# another's way.
target_compile_definitions(psp_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED ASIO_DISABLE_STD_ALIGNED_ALLOC)
target_link_libraries(psp_asio INTERFACE Threads::Threads)
add_library(psp::asio ALIAS psp_asio)
