# Checks the report of a call on a Hopper: REPORT is the JSON file of flamia attend.
# Used by: cmake/cudart.cmake.
cmake_minimum_required(VERSION 3.25)

file(READ "${REPORT}" json)
function(expect_match pattern)
  string(JSON value GET "${json}" ${ARGN})
  if(NOT value MATCHES "${pattern}")
    message(FATAL_ERROR "${ARGN} must match ${pattern}; got ${value}")
  endif()
endfunction()

expect_match("^hopper$" backend)
expect_match("H200, [0-9]+ multiprocessors" device)
expect_match("^flamia_sm90a_forward_mxfp8_d128$" kernels 4)
expect_match("^hw$" conventions accumulate)
expect_match("^0\\.99[89]" outputs o cosine)
expect_match("^ON$" leak passed)
