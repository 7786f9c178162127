# `cmake --install` gives find_package(mstrain_mcts), targets mstrain_mcts::mstrain_mcts, …_games and …_c: of this folder alone with
# all that they need; of the whole on top of mstrain, which has them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(mcts_config ${CMAKE_INSTALL_LIBDIR}/cmake/mstrain_mcts)
if(MSTRAIN_MCTS_ALONE)
  get_property(rooms GLOBAL PROPERTY MSTRAIN_ROOMS)
  install(TARGETS ${rooms} mstrain_options EXPORT mstrain_mctsTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/mstrain LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT mstrain_mctsTargets NAMESPACE mstrain_mcts:: DESTINATION ${mcts_config})
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mstrain FILES_MATCHING
          PATTERN "*.h" PATTERN "example.c" PATTERN "python" EXCLUDE)
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/../core/base DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mstrain/core
          FILES_MATCHING PATTERN "*.h")
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mstrain_mctsConfig.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/mstrain_mctsConfig.cmake
                              INSTALL_DESTINATION ${mcts_config})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/mstrain_mctsConfigVersion.cmake
                                 VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mstrain_mctsConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/mstrain_mctsConfigVersion.cmake DESTINATION ${mcts_config})
