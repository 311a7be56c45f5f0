// Attributes of the chips. Those of h200 were read from a card; the B chips differ in what
// chip_facts names, from published data, not from a card.
#include "emulator/cudart/chip.h"

#include <algorithm>
#include <cstring>

namespace flamia::emulator::cudart {
namespace {

constexpr int kMegabyte = 1 << 20;

constexpr ChipFacts kFacts[] = {
    {"flamia virtual H200", "sm_90a", 9, 0, 132, 1980000, 3201000, 6016, 60 * kMegabyte},
    {"flamia virtual B200", "sm_100a", 10, 0, 148, 1965000, 3996000, 7680, 126 * kMegabyte},
    {"flamia virtual B300", "sm_103a", 10, 3, 148, 1920000, 3996000, 7680, 126 * kMegabyte},
};

struct Attribute {
  cudaDeviceAttr attribute;
  int value;
};

/// Equal on all chips. Absent here and below: zero.
constexpr Attribute kCommon[] = {
    {cudaDevAttrMaxThreadsPerBlock, kMaxThreads},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 2147483647},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, kSharedDefault},
    {cudaDevAttrTotalConstantMemory, 65536},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxPitch, 2147483647},
    {cudaDevAttrMaxRegistersPerBlock, kRegistersOfSm},
    {cudaDevAttrTextureAlignment, 512},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrSurfaceAlignment, 512},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrEccEnabled, 1},
    {cudaDevAttrPciBusId, 1},
    {cudaDevAttrMaxThreadsPerMultiProcessor, kMaxThreadsOfSm},
    {cudaDevAttrAsyncEngineCount, 1},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrTexturePitchAlignment, 32},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrGlobalL1CacheSupported, 1},
    {cudaDevAttrLocalL1CacheSupported, 1},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, kSharedOfSm},
    {cudaDevAttrMaxRegistersPerMultiprocessor, kRegistersOfSm},
    {cudaDevAttrSingleToDoublePrecisionPerfRatio, 2},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
    {cudaDevAttrCooperativeLaunch, 1},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedMax},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrMaxBlocksPerMultiprocessor, kMaxBlocksOfSm},
    {cudaDevAttrMaxAccessPolicyWindowSize, 128 * kMegabyte},
    {cudaDevAttrReservedSharedMemoryPerBlock, kSharedReservedOfBlock},
    {cudaDevAttrMemoryPoolsSupported, 1},
    {cudaDevAttrClusterLaunch, 1},
    {cudaDevAttrNumaId, -1},
    // Texture and surface limits: of the hardware, though no textures can be made here.
    {cudaDevAttrMaxTexture1DWidth, 131072},
    {cudaDevAttrMaxTexture2DWidth, 131072},
    {cudaDevAttrMaxTexture2DHeight, 65536},
    {cudaDevAttrMaxTexture3DWidth, 16384},
    {cudaDevAttrMaxTexture3DHeight, 16384},
    {cudaDevAttrMaxTexture3DDepth, 16384},
    {cudaDevAttrMaxTexture2DLayeredWidth, 32768},
    {cudaDevAttrMaxTexture2DLayeredHeight, 32768},
    {cudaDevAttrMaxTexture2DLayeredLayers, 2048},
    {cudaDevAttrMaxTexture1DLayeredWidth, 32768},
    {cudaDevAttrMaxTexture1DLayeredLayers, 2048},
    {cudaDevAttrMaxTexture2DGatherWidth, 32768},
    {cudaDevAttrMaxTexture2DGatherHeight, 32768},
    {cudaDevAttrMaxTexture3DWidthAlt, 8192},
    {cudaDevAttrMaxTexture3DHeightAlt, 8192},
    {cudaDevAttrMaxTexture3DDepthAlt, 32768},
    {cudaDevAttrMaxTextureCubemapWidth, 32768},
    {cudaDevAttrMaxTextureCubemapLayeredWidth, 32768},
    {cudaDevAttrMaxTextureCubemapLayeredLayers, 2046},
    {cudaDevAttrMaxSurface1DWidth, 32768},
    {cudaDevAttrMaxSurface2DWidth, 131072},
    {cudaDevAttrMaxSurface2DHeight, 65536},
    {cudaDevAttrMaxSurface3DWidth, 16384},
    {cudaDevAttrMaxSurface3DHeight, 16384},
    {cudaDevAttrMaxSurface3DDepth, 16384},
    {cudaDevAttrMaxSurface1DLayeredWidth, 32768},
    {cudaDevAttrMaxSurface1DLayeredLayers, 2048},
    {cudaDevAttrMaxSurface2DLayeredWidth, 32768},
    {cudaDevAttrMaxSurface2DLayeredHeight, 32768},
    {cudaDevAttrMaxSurface2DLayeredLayers, 2048},
    {cudaDevAttrMaxSurfaceCubemapWidth, 32768},
    {cudaDevAttrMaxSurfaceCubemapLayeredWidth, 32768},
    {cudaDevAttrMaxSurfaceCubemapLayeredLayers, 2046},
    {cudaDevAttrMaxTexture1DLinearWidth, 268435456},
    {cudaDevAttrMaxTexture2DLinearWidth, 131072},
    {cudaDevAttrMaxTexture2DLinearHeight, 65000},
    {cudaDevAttrMaxTexture2DLinearPitch, 2097120},
    {cudaDevAttrMaxTexture2DMipmappedWidth, 32768},
    {cudaDevAttrMaxTexture2DMipmappedHeight, 32768},
    {cudaDevAttrMaxTexture1DMipmappedWidth, 32768},
};

/// The largest number that is an attribute in CUDA 13.0.
constexpr int kLastAttribute = 147;

}  // namespace

const ChipFacts& chip_facts(Chip chip) { return kFacts[static_cast<size_t>(chip)]; }

std::optional<int> device_attribute(const MachineOptions& options, int attribute) {
  if (attribute < 1 || attribute > kLastAttribute) return std::nullopt;
  const ChipFacts& facts = chip_facts(options.chip);
  switch (attribute) {
    case cudaDevAttrClockRate:
      return facts.clock_khz;
    case cudaDevAttrMultiProcessorCount:
      return static_cast<int>(options.sms);
    case cudaDevAttrMemoryClockRate:
      return facts.memory_clock_khz;
    case cudaDevAttrGlobalMemoryBusWidth:
      return facts.memory_bus_bits;
    case cudaDevAttrL2CacheSize:
      return facts.l2_bytes;
    case cudaDevAttrComputeCapabilityMajor:
      return facts.major;
    case cudaDevAttrComputeCapabilityMinor:
      return facts.minor;
    default:
      break;
  }
  const auto* found = std::find_if(std::begin(kCommon), std::end(kCommon), [&](const Attribute& a) {
    return static_cast<int>(a.attribute) == attribute;
  });
  return found == std::end(kCommon) ? 0 : found->value;
}

namespace {

class PropertyFiller {
 public:
  explicit PropertyFiller(const MachineOptions& options) : options_(options) {}
  int operator()(cudaDeviceAttr attribute) const {
    return device_attribute(options_, attribute).value_or(0);
  }
  size_t size(cudaDeviceAttr attribute) const { return static_cast<size_t>((*this)(attribute)); }
  template <size_t Count>
  void list(int (&out)[Count], const cudaDeviceAttr (&attributes)[Count]) const {
    for (size_t i = 0; i < Count; ++i) out[i] = (*this)(attributes[i]);
  }

 private:
  const MachineOptions& options_;
};

void fill_limits(const PropertyFiller& of, cudaDeviceProp* p) {
  p->sharedMemPerBlock = of.size(cudaDevAttrMaxSharedMemoryPerBlock);
  p->regsPerBlock = of(cudaDevAttrMaxRegistersPerBlock);
  p->warpSize = of(cudaDevAttrWarpSize);
  p->memPitch = of.size(cudaDevAttrMaxPitch);
  p->maxThreadsPerBlock = of(cudaDevAttrMaxThreadsPerBlock);
  of.list(p->maxThreadsDim,
          {cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ});
  of.list(p->maxGridSize, {cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ});
  p->totalConstMem = of.size(cudaDevAttrTotalConstantMemory);
  p->major = of(cudaDevAttrComputeCapabilityMajor);
  p->minor = of(cudaDevAttrComputeCapabilityMinor);
  p->multiProcessorCount = of(cudaDevAttrMultiProcessorCount);
  p->memoryBusWidth = of(cudaDevAttrGlobalMemoryBusWidth);
  p->l2CacheSize = of(cudaDevAttrL2CacheSize);
  p->maxThreadsPerMultiProcessor = of(cudaDevAttrMaxThreadsPerMultiProcessor);
  p->sharedMemPerMultiprocessor = of.size(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  p->regsPerMultiprocessor = of(cudaDevAttrMaxRegistersPerMultiprocessor);
  p->sharedMemPerBlockOptin = of.size(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  p->maxBlocksPerMultiProcessor = of(cudaDevAttrMaxBlocksPerMultiprocessor);
  p->accessPolicyMaxWindowSize = of(cudaDevAttrMaxAccessPolicyWindowSize);
  p->reservedSharedMemPerBlock = of.size(cudaDevAttrReservedSharedMemoryPerBlock);
}

void fill_textures(const PropertyFiller& of, cudaDeviceProp* p) {
  p->textureAlignment = of.size(cudaDevAttrTextureAlignment);
  p->texturePitchAlignment = of.size(cudaDevAttrTexturePitchAlignment);
  p->surfaceAlignment = of.size(cudaDevAttrSurfaceAlignment);
  p->maxTexture1D = of(cudaDevAttrMaxTexture1DWidth);
  p->maxTexture1DMipmap = of(cudaDevAttrMaxTexture1DMipmappedWidth);
  of.list(p->maxTexture2D, {cudaDevAttrMaxTexture2DWidth, cudaDevAttrMaxTexture2DHeight});
  of.list(p->maxTexture2DMipmap,
          {cudaDevAttrMaxTexture2DMipmappedWidth, cudaDevAttrMaxTexture2DMipmappedHeight});
  of.list(p->maxTexture2DLinear,
          {cudaDevAttrMaxTexture2DLinearWidth, cudaDevAttrMaxTexture2DLinearHeight,
           cudaDevAttrMaxTexture2DLinearPitch});
  of.list(p->maxTexture2DGather,
          {cudaDevAttrMaxTexture2DGatherWidth, cudaDevAttrMaxTexture2DGatherHeight});
  of.list(p->maxTexture3D, {cudaDevAttrMaxTexture3DWidth, cudaDevAttrMaxTexture3DHeight,
                            cudaDevAttrMaxTexture3DDepth});
  of.list(p->maxTexture3DAlt, {cudaDevAttrMaxTexture3DWidthAlt, cudaDevAttrMaxTexture3DHeightAlt,
                               cudaDevAttrMaxTexture3DDepthAlt});
  p->maxTextureCubemap = of(cudaDevAttrMaxTextureCubemapWidth);
  of.list(p->maxTexture1DLayered,
          {cudaDevAttrMaxTexture1DLayeredWidth, cudaDevAttrMaxTexture1DLayeredLayers});
  of.list(p->maxTexture2DLayered,
          {cudaDevAttrMaxTexture2DLayeredWidth, cudaDevAttrMaxTexture2DLayeredHeight,
           cudaDevAttrMaxTexture2DLayeredLayers});
  of.list(p->maxTextureCubemapLayered,
          {cudaDevAttrMaxTextureCubemapLayeredWidth, cudaDevAttrMaxTextureCubemapLayeredLayers});
  p->maxSurface1D = of(cudaDevAttrMaxSurface1DWidth);
  of.list(p->maxSurface2D, {cudaDevAttrMaxSurface2DWidth, cudaDevAttrMaxSurface2DHeight});
  of.list(p->maxSurface3D, {cudaDevAttrMaxSurface3DWidth, cudaDevAttrMaxSurface3DHeight,
                            cudaDevAttrMaxSurface3DDepth});
  of.list(p->maxSurface1DLayered,
          {cudaDevAttrMaxSurface1DLayeredWidth, cudaDevAttrMaxSurface1DLayeredLayers});
  of.list(p->maxSurface2DLayered,
          {cudaDevAttrMaxSurface2DLayeredWidth, cudaDevAttrMaxSurface2DLayeredHeight,
           cudaDevAttrMaxSurface2DLayeredLayers});
  p->maxSurfaceCubemap = of(cudaDevAttrMaxSurfaceCubemapWidth);
  of.list(p->maxSurfaceCubemapLayered,
          {cudaDevAttrMaxSurfaceCubemapLayeredWidth, cudaDevAttrMaxSurfaceCubemapLayeredLayers});
}

void fill_features(const PropertyFiller& of, cudaDeviceProp* p) {
  p->canMapHostMemory = of(cudaDevAttrCanMapHostMemory);
  p->concurrentKernels = of(cudaDevAttrConcurrentKernels);
  p->ECCEnabled = of(cudaDevAttrEccEnabled);
  p->pciBusID = of(cudaDevAttrPciBusId);
  p->asyncEngineCount = of(cudaDevAttrAsyncEngineCount);
  p->unifiedAddressing = of(cudaDevAttrUnifiedAddressing);
  p->streamPrioritiesSupported = of(cudaDevAttrStreamPrioritiesSupported);
  p->globalL1CacheSupported = of(cudaDevAttrGlobalL1CacheSupported);
  p->localL1CacheSupported = of(cudaDevAttrLocalL1CacheSupported);
  p->canUseHostPointerForRegisteredMem = of(cudaDevAttrCanUseHostPointerForRegisteredMem);
  p->cooperativeLaunch = of(cudaDevAttrCooperativeLaunch);
  p->hostRegisterSupported = of(cudaDevAttrHostRegisterSupported);
  p->memoryPoolsSupported = of(cudaDevAttrMemoryPoolsSupported);
  p->clusterLaunch = of(cudaDevAttrClusterLaunch);
  p->deviceNumaId = of(cudaDevAttrNumaId);
}

}  // namespace

cudaDeviceProp device_properties(const MachineOptions& options, uint64_t total_bytes) {
  cudaDeviceProp properties;
  std::memset(&properties, 0, sizeof(properties));
  const PropertyFiller of(options);
  const std::string_view name = chip_facts(options.chip).name;
  std::memcpy(properties.name, name.data(), name.size());
  std::memcpy(properties.uuid.bytes, "flamia virtual 0", sizeof(properties.uuid.bytes));
  properties.totalGlobalMem = total_bytes;
  fill_limits(of, &properties);
  fill_textures(of, &properties);
  fill_features(of, &properties);
  return properties;
}

}  // namespace flamia::emulator::cudart
