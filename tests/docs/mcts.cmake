
# The example of the C interface, as it is installed.
enable_language(C)
get_target_property(include mstrain_mcts::mstrain_mcts_c INTERFACE_INCLUDE_DIRECTORIES)
add_executable(example ${include}/mcts/c_api/example.c)
target_link_libraries(example mstrain_mcts::mstrain_mcts_c)
