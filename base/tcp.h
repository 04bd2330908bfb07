/* tcp: sockets that listen, and what the kernel knows of a connection. */
#ifndef NOISED_TCP_H
#define NOISED_TCP_H

#include "base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { TCP_NAME_BYTES = INET6_ADDRSTRLEN };

/* A socket that listens there, host being a name or an address; -1 when that fails. */
int tcp_listen(const char *host, int port, Err *err);

/* Makes sure that accept on it does not wait, and tells its port. On failure it is closed. */
int tcp_accepts(int fd, int *port, Err *err);

/* The peer's address, "" when it has none. */
void tcp_name(const struct sockaddr *address, char out[TCP_NAME_BYTES]);

uint64_t tcp_written(int fd); /* bytes that the socket has taken from us; 0 for one that is not TCP */

/* What is sent goes out at once; a peer that takes nothing of it for so many seconds ends the connection. */
void tcp_prompt(int fd, double stall_seconds);

#endif
