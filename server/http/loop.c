/* The loop around MHD_run. libmicrohttpd's own (0.9.75, 1.0.1) asks epoll again, without a time limit, after a full
 * list of 128 events: when nobody sends anything more, those 128 are never looked at. MHD_run does not wait. But it may
 * eat the signal of a connection that was resumed while it ran, hence a signal of our own, taken before MHD_run looks.
 */
#include "base/err.h"
#include "server/http/connection.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

void http_loop_nudge(struct Http *h) {
    if (!atomic_exchange(&h->nudged, true)) eventfd_write(h->nudge_fd, 1);
}

static void *loop(void *arg) {
    struct Http *h = arg;
    struct pollfd p[] = {
        {.fd = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN},
        {.fd = h->nudge_fd, .events = POLLIN},
    };
    while (!atomic_load(&h->stopping)) {
        MHD_UNSIGNED_LONG_LONG ms;
        eventfd_t count;
        bool limited = MHD_get_timeout(h->daemon, &ms) == MHD_YES;
        poll(p, COUNTOF(p), limited ? (int)MIN(ms, INT_MAX) : -1);
        if (p[1].revents) {
            eventfd_read(h->nudge_fd, &count);
            atomic_store(&h->nudged, false);
        }
        MHD_run(h->daemon);
    }
    return NULL;
}

int http_loop_start(struct Http *h) {
    h->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->nudge_fd < 0) return -1;
    int rc = pthread_create(&h->loop, NULL, loop, h);
    if (rc == 0) return 0;
    close(h->nudge_fd);
    errno = rc;
    return -1;
}

void http_loop_stop(struct Http *h) {
    http_loop_nudge(h);
    pthread_join(h->loop, NULL);
}
