# Finds what the cache and the rooms below it are built on, here and for programs that use the installed package.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
include(ImportedLibrary)
mstrain_imported_library(isal isa-l/crc.h)
