# How everything is compiled, for the suite and for each library that is built alone.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

option(MSTRAIN_WERROR "Treat compiler warnings as errors" OFF)
set(MSTRAIN_SANITIZE "" CACHE STRING "Sanitizers to build with, such as address,undefined")

# Compiling the sources of a room eight at a time (sixteen is no better) costs 0.4 to 0.6 of the time in three samples: headers, templates and inline functions
# are common to them. The price: two of them cannot give one name to two things, and an edit rebuilds eight.
# scripts/ ask for it, for builds from nothing.
# (Precompiled headers saved nothing that could be told from noise: g++ takes 0.6 s to load one, and ccache must be told to believe them.)
set(CMAKE_UNITY_BUILD OFF CACHE BOOL "Compile sources eight at a time")
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

# Collecting the garbage of its own memory, which g++ begins at 128 MB, is a sixth of its time: where processors have memory enough it begins later.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  cmake_host_system_information(RESULT megabytes QUERY TOTAL_PHYSICAL_MEMORY)
  cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR each "${megabytes} / ${processors}")
  if(each GREATER 2500)
    add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:--param=ggc-min-heapsize=500000>")  # kB
  endif()
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Links in a fifth of the time of GNU's, which under sanitizers takes ten seconds for a program of tests.
find_program(MOLD mold)
if(MOLD AND (CMAKE_CXX_COMPILER_ID MATCHES Clang OR CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1))
  add_link_options(-fuse-ld=mold)
endif()
