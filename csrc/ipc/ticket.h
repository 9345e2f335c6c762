// What a message about a buffer says, and what is said to who cannot have it.
#pragma once

#include <cstddef>

#include "ipc/ipc_api.h"
#include "support/status.h"

namespace qnnrt::ipc {

uint32_t ChecksumOf(const qnnrt_ticket_t& ticket);
// Errors: 60005.
Result<qnnrt_ticket_t> ReadTicket(const void* bytes, size_t size);
// The error for a code of QNNRT_HANDOFF_*, as the receiver of the ticket sees it.
Status Refusal(uint32_t code, const qnnrt_ticket_t& ticket);

}  // namespace qnnrt::ipc
