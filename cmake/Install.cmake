# `cmake --install` gives headers, libraries and a CMake package: find_package(mstrain), target mstrain::mstrain.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY MSTRAIN_ROOMS)
install(TARGETS ${rooms} mstrain mstrain_start mstrain_options EXPORT mstrainTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/mstrain
        OBJECTS DESTINATION ${CMAKE_INSTALL_LIBDIR}/mstrain)
install(EXPORT mstrainTargets NAMESPACE mstrain:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mstrain)
install(DIRECTORY core suites launcher mcts DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mstrain FILES_MATCHING PATTERN "*.h" PATTERN "*.inc"
        PATTERN "example.c" PATTERN "backends" EXCLUDE PATTERN "python" EXCLUDE PATTERN "play" EXCLUDE)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mstrainConfig.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/mstrainConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mstrain)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/mstrainConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mstrainConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/mstrainConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/Dependencies.cmake ${CMAKE_CURRENT_LIST_DIR}/ImportedLibrary.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mstrain)
