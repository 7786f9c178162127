# What the top of the tree sets up, for a build of this folder alone.
get_filename_component(PROJECT_SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/.. ABSOLUTE)
include(${PROJECT_SOURCE_DIR}/cmake/Settings.cmake)

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)

include(${PROJECT_SOURCE_DIR}/cmake/Rooms.cmake)
mstrain_room(base ${PROJECT_SOURCE_DIR}/core/base DEPENDS fmt::fmt Threads::Threads nlohmann_json::nlohmann_json
             PRIVATE_DEPENDS yaml-cpp)
target_compile_definitions(mstrain_base PRIVATE MSTRAIN_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                MSTRAIN_VERSION="${PROJECT_VERSION}")
