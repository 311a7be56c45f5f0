// libcuda.so.1: for programs that link or load the driver. It needs libcudart.so.13, in which the
// driver calls are, and has none of its own.
namespace flamia::emulator::cudart {
namespace {

/// A translation unit must not be empty.
[[maybe_unused]] constexpr int kDriverVersion = 13000;

}  // namespace
}  // namespace flamia::emulator::cudart
