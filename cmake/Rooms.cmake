# A room is a folder that becomes one static library, `mstrain_<name>`.
add_library(mstrain_options INTERFACE)
target_include_directories(mstrain_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                     $<INSTALL_INTERFACE:include/mstrain>)
target_compile_features(mstrain_options INTERFACE cxx_std_20)

set_property(GLOBAL PROPERTY MSTRAIN_ROOMS "")

set(MSTRAIN_WARNINGS -Wall -Wextra -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND MSTRAIN_WARNINGS -Wno-array-bounds)  # false reports inside std::vector and std::shared_ptr
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND MSTRAIN_WARNINGS -Wno-subobject-linkage)  # a source that is included may keep things to itself as well
endif()
if(MSTRAIN_WERROR)
  list(APPEND MSTRAIN_WARNINGS -Werror)
endif()
set(MSTRAIN_TEST_OPTIMISATION -Og)
set(MSTRAIN_ROOM_OPTIMISATION)
set(MSTRAIN_KERNEL_OPTIMISATION -O3)
set(MSTRAIN_FEWER_CHECKS)
set(MSTRAIN_NULL_OFFSETS)
if(MSTRAIN_SANITIZE)
  # Most of a sanitized build is compiling: optimised is only what the tests wait for.
  set(MSTRAIN_TEST_OPTIMISATION -O0)
  set(MSTRAIN_ROOM_OPTIMISATION -O0)
  set(MSTRAIN_KERNEL_OPTIMISATION -O1)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")  # assertions stay
  add_compile_options(-fsanitize=${MSTRAIN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MSTRAIN_SANITIZE})
  foreach(kind address thread)
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND MSTRAIN_SANITIZE MATCHES ${kind})
      string(TOUPPER ${kind} name)
      add_compile_definitions(__SANITIZE_${name}__=1)  # as g++ says by itself
    endif()
  endforeach()
  if(MSTRAIN_SANITIZE MATCHES undefined)
    # A third of the time of compiling. Null pointers, and what is smaller than what is read of it, end a program under the
    # address sanitizer anyway. Rooms that take the bytes of files, messages and tensors apart by hand keep these checks, but
    # for Eigen's decompositions.
    # Offsets from a null pointer, as into a workspace of no bytes, are errors to clang alone.
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      set(MSTRAIN_NULL_OFFSETS -fno-sanitize=pointer-overflow)
    endif()
    set(MSTRAIN_FEWER_CHECKS -fno-sanitize=null,alignment,object-size ${MSTRAIN_NULL_OFFSETS})
  endif()
endif()
set(MSTRAIN_ROOMS_OF_BYTES base runtime comm io data backend_cpu backend_reference embedding_cache mcts)
set(MSTRAIN_ROOMS_OF_WORK base runtime schedule ir ops tensor transform compile exec data images backend_reference embedding_cache mcts)

# mstrain_room(<name> <folder> [DEPENDS <targets>...] [PRIVATE_DEPENDS <targets>...])
function(mstrain_room name folder)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  if(NOT sources)
    message(FATAL_ERROR "The room ${name} has no sources: ${folder}/*.cc")
  endif()
  add_library(mstrain_${name} STATIC ${sources})
  target_link_libraries(mstrain_${name} PUBLIC mstrain_options ${ROOM_DEPENDS})
  target_link_libraries(mstrain_${name} PRIVATE ${ROOM_PRIVATE_DEPENDS})
  set_property(GLOBAL APPEND PROPERTY MSTRAIN_ROOMS mstrain_${name})
  target_compile_options(mstrain_${name} PRIVATE ${MSTRAIN_WARNINGS})
  if(NOT name IN_LIST MSTRAIN_ROOMS_OF_BYTES)
    target_compile_options(mstrain_${name} PRIVATE ${MSTRAIN_FEWER_CHECKS})
  endif()
  if(NOT name IN_LIST MSTRAIN_ROOMS_OF_WORK)
    target_compile_options(mstrain_${name} PRIVATE ${MSTRAIN_ROOM_OPTIMISATION})
  endif()
endfunction()

# Of memory that was freed 32 MB are kept to tell of who still uses it, which stay in the processor's caches more than four times as many.
set(MSTRAIN_SANITIZER_OPTIONS
    "ASAN_OPTIONS=allocator_may_return_null=1:malloc_context_size=8:quarantine_size_mb=32:detect_stack_use_after_return="
    "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/../tests/leaks_of_others.txt:print_suppressions=0")

set(MSTRAIN_NOT_SANITIZED ${CMAKE_CURRENT_LIST_DIR}/../tests/not_sanitized.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MSTRAIN_NOT_SANITIZED})

# mstrain_test(<name> <label> <folder> [LONG] [SHARDS <n>] DEPENDS <targets>...): one program from <folder>/*_test.cc, one ctest per
# test; under sanitizers <n> for all of them but those of tests/not_sanitized.txt. LONG: there its frames are on the stack, a third of
# the time less; pointers that outlive the call whose variable they are of are found in the other programs alone.
function(mstrain_test name label folder)
  cmake_parse_arguments(TEST "LONG" "SHARDS" "DEPENDS" ${ARGN})
  if(NOT TEST_SHARDS)
    set(TEST_SHARDS 1)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*_test.cc)
  if(NOT sources)
    message(FATAL_ERROR "The tests ${name} have no sources: ${folder}/*_test.cc")
  endif()
  add_executable(${name} ${sources})
  # Tests are compiled more often than they run: what they call is optimised, they themselves little.
  target_compile_options(${name} PRIVATE ${MSTRAIN_WARNINGS} ${MSTRAIN_TEST_OPTIMISATION} ${MSTRAIN_FEWER_CHECKS})
  target_link_libraries(${name} PRIVATE ${TEST_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  # Several tests run side by side: threads that spin where they wait would keep those of others from the processors.
  set(waits OMP_WAIT_POLICY=passive)
  if(NOT MSTRAIN_SANITIZE)
    gtest_discover_tests(${name} NO_PRETTY_VALUES PROPERTIES LABELS ${label} ENVIRONMENT ${waits}
                         DISCOVERY_TIMEOUT 60)
    return()
  endif()
  set(frames 1)
  if(TEST_LONG)
    set(frames 0)
  endif()
  list(TRANSFORM MSTRAIN_SANITIZER_OPTIONS REPLACE "=$" "=${frames}" OUTPUT_VARIABLE options)
  file(STRINGS ${MSTRAIN_NOT_SANITIZED} left_out REGEX "^[^#]")
  list(JOIN left_out ":" left_out)
  # A process for each test would spend most of its time on starting and on looking for leaks.
  foreach(shard RANGE 1 ${TEST_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}_${shard} COMMAND ${name})
    set_tests_properties(
      ${name}_${shard} PROPERTIES LABELS ${label} ENVIRONMENT
      "${waits};${options};GTEST_FILTER=-${left_out};GTEST_TOTAL_SHARDS=${TEST_SHARDS};GTEST_SHARD_INDEX=${index};GTEST_BRIEF=1;GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/results/${name}_${shard}.xml")
  endforeach()
endfunction()
