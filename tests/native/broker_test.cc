// Leases and the broker: many receivers at once, forks among them, and nothing held afterwards.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "abi/qnn_errors.h"
#include "check.h"
#include "eventually.h"
#include "ipc/ipc_api.h"
#include "ipc/ticket.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#endif

namespace {

qnnrt_ipc_counts_t Counts() {
  qnnrt_ipc_counts_t counts;
  qnnrt_ipc_counts(&counts);
  return counts;
}

struct Sent {
  explicit Sent(uint64_t nbytes = 4096, const char* heap = "memfd") {
    CHECK_EQ(qnnrt_buffer_alloc(heap, nbytes, 0, &buffer), 0u);
    qnnrt_buffer_info_t info;
    qnnrt_buffer_info(buffer, &info);
    address = static_cast<uint8_t*>(info.address);
  }
  ~Sent() {
    if (buffer != 0) CHECK_EQ(qnnrt_buffer_close(buffer), 0u);
  }
  qnnrt_lease_t Lease(uint32_t flags = 0) {
    qnnrt_lease_t lease = 0;
    CHECK_EQ(qnnrt_lease_create(buffer, flags, &lease), 0u);
    return lease;
  }
  qnnrt_buffer_t buffer = 0;
  uint8_t* address = nullptr;
};

qnnrt_ticket_t TicketOf(qnnrt_lease_t lease, bool in_flight = false) {
  qnnrt_ticket_t ticket = {};
  CHECK_EQ(qnnrt_lease_ticket(lease, in_flight, &ticket), 0u);
  return ticket;
}

// As another process does, over a connection.
uint64_t Receive(qnnrt_peer_t* peer, const qnnrt_ticket_t& ticket, uint8_t* first) {
  qnnrt_buffer_t buffer;
  const uint64_t code = qnnrt_peer_receive(peer, &ticket, &buffer);
  if (code != 0) return code;
  qnnrt_buffer_info_t info;
  qnnrt_buffer_info(buffer, &info);
  *first = *static_cast<uint8_t*>(info.address);
  return qnnrt_buffer_close(buffer);
}

}  // namespace

TEST(many_threads_receive_over_connections_of_their_own) {
  Sent sent;
  sent.address[0] = 7;
  const qnnrt_lease_t lease = sent.Lease();
  const int64_t before = Counts().fds;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const qnnrt_ticket_t ticket = TicketOf(lease, true);
        qnnrt_peer_t* peer;
        if (qnnrt_peer_connect(&ticket, &peer) != 0) return (void)++wrong;
        for (int j = 0; j < 3; ++j) {
          uint8_t first = 0;
          if (Receive(peer, ticket, &first) != 0 || first != 7) ++wrong;
        }
        qnnrt_peer_close(peer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK(Eventually([] { return Counts().connections == 0 && Counts().in_flight == 0; }));
  CHECK_EQ(Counts().fds, before);
  CHECK_EQ(qnnrt_lease_end(lease), 0u);
  CHECK_EQ(qnnrt_lease_end(lease), uint64_t{QNNRT_HANDOFF_LEASE});
}

TEST(one_connection_serves_many_threads) {
  Sent sent;
  sent.address[0] = 9;
  const qnnrt_lease_t lease = sent.Lease();
  const qnnrt_ticket_t ticket = TicketOf(lease);
  qnnrt_peer_t* peer = nullptr;
  REQUIRE(qnnrt_peer_connect(&ticket, &peer) == 0);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        uint8_t first = 0;
        if (Receive(peer, ticket, &first) != 0 || first != 9) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  qnnrt_peer_close(peer);
  CHECK_EQ(qnnrt_lease_end(lease), 0u);
}

TEST(leases_come_and_go_while_others_receive) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, received{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        Sent sent;
        sent.address[0] = 3;
        const qnnrt_lease_t lease = sent.Lease();
        const qnnrt_ticket_t ticket = TicketOf(lease, true);
        if (qnnrt_lease_end(lease) != 0) ++wrong;
        qnnrt_peer_t* peer = nullptr;
        uint8_t first = 0;
        if (qnnrt_peer_connect(&ticket, &peer) != 0) ++wrong;
        if (Receive(peer, ticket, &first) != 0 || first != 3) ++wrong;  // the message keeps it
        qnnrt_peer_close(peer);
        ++received;
      }
    });
  }
  CHECK(Eventually([&] { return received > 200; }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK(Eventually([] { return Counts().leases == 0 && Counts().connections == 0; }));
}

TEST(at_most_4096_messages_of_a_lease_are_in_flight) {
  Sent sent;
  const qnnrt_lease_t lease = sent.Lease();
  const qnnrt_ticket_t first = TicketOf(lease, true);
  const qnnrt_ticket_t second = TicketOf(lease, true);
  for (int i = 0; i < 4095; ++i) (void)TicketOf(lease, true);
  CHECK_EQ(Counts().in_flight, 4096);
  uint8_t value;
  CHECK_EQ(Receive(nullptr, first, &value), 0u);  // it is forgotten, not refused
  CHECK_EQ(Counts().in_flight, 4096);
  CHECK_EQ(Receive(nullptr, second, &value), 0u);
  CHECK_EQ(Counts().in_flight, 4095);
  qnnrt_ipc_forget_messages();
  CHECK_EQ(Counts().in_flight, 0);
  CHECK_EQ(Counts().leases, 1);
  CHECK_EQ(qnnrt_lease_end(lease), 0u);
  CHECK_EQ(Counts().leases, 0);
}

TEST(null_pointers_and_handles_that_are_none_are_errors) {
  qnnrt_ticket_t ticket = {};
  qnnrt_lease_t lease;
  qnnrt_peer_t* peer;
  qnnrt_buffer_t buffer;
  CHECK_EQ(qnnrt_lease_create(77, 0, &lease), uint64_t{QNN_MEM_ERROR_INVALID_HANDLE});
  CHECK_EQ(qnnrt_lease_create(77, 0, nullptr), uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(qnnrt_lease_ticket(77, 0, &ticket), uint64_t{QNNRT_HANDOFF_LEASE});
  CHECK_EQ(qnnrt_lease_ticket(77, 0, nullptr), uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(qnnrt_ticket_read(nullptr, 0, &ticket), uint64_t{QNNRT_HANDOFF_TICKET});
  CHECK_EQ(qnnrt_ticket_read(&ticket, sizeof ticket, &ticket), uint64_t{QNNRT_HANDOFF_TICKET});
  CHECK_EQ(qnnrt_peer_connect(nullptr, &peer), uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(qnnrt_peer_connect(&ticket, &peer), uint64_t{QNNRT_HANDOFF_ENDED});
  CHECK(std::strlen(qnnrt_ipc_last_error()) > 20);
  CHECK_EQ(qnnrt_peer_receive(nullptr, &ticket, &buffer), uint64_t{QNNRT_HANDOFF_CONNECT});
  qnnrt_peer_close(nullptr);
  CHECK_EQ(qnnrt_peer_arrived(nullptr, nullptr), uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
}

#ifndef UNDER_THREAD_SANITIZER
TEST(forks_while_threads_receive_leave_both_sides_working) {
  Sent sent;
  sent.address[0] = 5;
  const qnnrt_lease_t lease = sent.Lease();
  const qnnrt_ticket_t ticket = TicketOf(lease);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        qnnrt_peer_t* peer = nullptr;
        uint8_t first = 0;
        if (qnnrt_peer_connect(&ticket, &peer) != 0) ++wrong;
        if (Receive(peer, ticket, &first) != 0 || first != 5) ++wrong;
        qnnrt_peer_close(peer);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      bool good = Counts().leases == 0 && Counts().connections == 0;
      good &= qnnrt_lease_end(lease) == QNNRT_HANDOFF_LEASE;
      qnnrt_peer_t* peer = nullptr;
      uint8_t first = 0;
      good &= qnnrt_peer_connect(&ticket, &peer) == 0;  // the parent is a sender like any other
      good &= Receive(peer, ticket, &first) == 0 && first == 5;
      qnnrt_peer_close(peer);
      qnnrt_buffer_t own;
      qnnrt_lease_t own_lease;
      qnnrt_ticket_t own_ticket;
      good &= qnnrt_buffer_alloc("memfd", 64, 0, &own) == 0;
      good &= qnnrt_lease_create(own, 0, &own_lease) == 0;
      good &= qnnrt_lease_ticket(own_lease, 0, &own_ticket) == 0;
      good &= std::memcmp(own_ticket.sender, ticket.sender, sizeof ticket.sender) != 0;
      good &= qnnrt_peer_connect(&own_ticket, &peer) == 0;
      good &= Receive(peer, own_ticket, &first) == 0;
      _exit(good ? 0 : 1);
    }
    int status = -1;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(qnnrt_lease_end(lease), 0u);
}
#endif

CHECK_MAIN("broker_test")
