# What the top of the tree sets up, for a build of this folder alone.
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

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)

get_filename_component(PROJECT_SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/.. ABSOLUTE)
include(${PROJECT_SOURCE_DIR}/cmake/Rooms.cmake)
mstrain_room(base ${PROJECT_SOURCE_DIR}/core/base DEPENDS fmt::fmt Threads::Threads nlohmann_json::nlohmann_json
             PRIVATE_DEPENDS yaml-cpp)
target_compile_definitions(mstrain_base PRIVATE MSTRAIN_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                MSTRAIN_VERSION="${PROJECT_VERSION}")
