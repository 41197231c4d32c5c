// A place's only way out: a network device in its namespace whose packets are this program's to carry.
#pragma once

#include "benchmarks/wan/site.h"
#include "common/file_descriptor.h"

namespace psp::wan {

// The kernel's struct virtio_net_hdr before each packet. It must go with the packet, since it tells what the kernel has
// left undone: TCP hands over up to 64 KiB at once, without check sums.
inline constexpr size_t kDeviceHeaderBytes = 10;
inline constexpr size_t kPacketBytesMax = 65536 + kDeviceHeaderBytes;

// Makes the device in the site's namespace, which must exist, and gives it the site's address in a /24. The device goes
// when the descriptor is closed. Reading and writing do not block. Throws std::system_error.
FileDescriptor OpenDevice(const Site& site);

}  // namespace psp::wan
