# find_package(gputopk): the target gputopk::gputopk, with gputopk/topk.h and LibTorch behind it.
#
#   cmake -DCMAKE_PREFIX_PATH="<torch's prefix>;<this prefix>"
#
# The prefix is where `cmake --install` put it or, of a wheel, the folder of torch_topk.
include(CMakeFindDependencyMacro)
find_dependency(Torch)

if(NOT TARGET gputopk::gputopk)
  get_filename_component(_gputopk_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(gputopk::gputopk INTERFACE IMPORTED)
  target_include_directories(gputopk::gputopk INTERFACE "${_gputopk_prefix}/include")
  target_compile_features(gputopk::gputopk INTERFACE cxx_std_17)
  set(_gputopk_libraries "${_gputopk_prefix}/lib/libgputopk.so")
  # It needs a CUDA build of torch: a CPU build could not load it.
  if(TARGET torch_cuda AND EXISTS "${_gputopk_prefix}/lib/libgputopk_cuda.so")
    list(APPEND _gputopk_libraries "${_gputopk_prefix}/lib/libgputopk_cuda.so")
  endif()
  # No program uses a symbol of these: they register operators when they are loaded. --no-as-needed keeps them.
  target_link_libraries(gputopk::gputopk INTERFACE
    -Wl,--push-state,--no-as-needed ${_gputopk_libraries} -Wl,--pop-state torch)
  unset(_gputopk_libraries)
  unset(_gputopk_prefix)
endif()
