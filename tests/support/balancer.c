#include "tests/support/balancer.h"

#include "base/clock.h"
#include "tests/support/http_client.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const programs[] = {[BALANCER_HAPROXY] = "haproxy", [BALANCER_NGINX] = "nginx"};

bool balancer_there(BalancerKind kind) {
    return system(test_text("PATH=$PATH:/usr/sbin; command -v %s >/dev/null", programs[kind])) == 0;
}

int free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    bool bound = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                 bind(fd, (struct sockaddr *)&a, n) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0;
    return bound ? ntohs(a.sin_port) : 0;
}

static void show(const Balancer *b) {
    char *text = test_read_file(test_text("%s/out", b->dir), NULL);
    test_fail(__FILE__, __LINE__, "%s: %s", programs[b->kind], text ? text : "no output");
    free(text);
}

/* haproxy's user and group are root's to take. */
static bool write_haproxy(const Balancer *b, const int *ports) {
    return system(test_text(
               "sed '/^    user /d; /^    group /d; s#/etc/haproxy/#deploy/#; s/127.0.0.1:8080/127.0.0.1:%d/; "
               "s/127.0.0.1:8081/127.0.0.1:%d/; s/127.0.0.1:8082/127.0.0.1:%d/; s/127.0.0.1:8083/127.0.0.1:%d/' "
               "deploy/haproxy.cfg >%s/conf",
               b->front.port, ports[0], ports[1], ports[2], b->dir)) == 0;
}

static bool write_nginx(const Balancer *b, const int *ports) {
    return system(test_text(
               "cd=%s; sed 's/listen 443 ssl/listen 127.0.0.1:%d/; /ssl_certificate/d; "
               "s/^    server 127.0.0.1:8080\\(.*\\)/server 127.0.0.1:%d\\1 server 127.0.0.1:%d\\1 "
               "server 127.0.0.1:%d\\1/' deploy/nginx.conf >$cd/noised.conf && "
               "for t in client_body proxy fastcgi uwsgi scgi; do echo ${t}_temp_path $cd/$t';'; done >$cd/paths && "
               "echo \"daemon off; pid $cd/pid; error_log $cd/errors; events {} http { access_log off; "
               "include $cd/paths; include $cd/noised.conf; }\" >$cd/conf",
               b->dir, b->front.port, ports[0], ports[1], ports[2])) == 0;
}

static bool answers(const Balancer *b) {
    for (double until = now_seconds() + PATIENCE; now_seconds() < until; usleep(10000)) {
        Answer a = http_get(&b->front, "/health");
        int status = a.status;
        if (status == 200) return true;
        if (waitpid(b->front.pid, NULL, WNOHANG)) return false;
    }
    return false;
}

bool balancer_start(Balancer *b, BalancerKind kind, const int *ports, const char *variable) {
    static const char *const commands[] = {
        [BALANCER_HAPROXY] = "haproxy -db -f", [BALANCER_NGINX] = "nginx -e /dev/stderr -c"};
    *b = (Balancer){.kind = kind, .front.port = free_port(), .dir = test_dir()};
    if (!(kind == BALANCER_NGINX ? write_nginx : write_haproxy)(b, ports)) return false;
    const char *command = test_text("PATH=$PATH:/usr/sbin; %s exec %s %s/conf >%s/out 2>&1", variable ? variable : "",
                                    commands[kind], b->dir, b->dir);
    fflush(stdout);
    b->front.pid = fork();
    if (b->front.pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (b->front.pid > 0 && answers(b)) return true;
    show(b);
    balancer_stop(b);
    return false;
}

void balancer_stop(Balancer *b) {
    if (b->front.pid > 0) {
        kill(b->front.pid, SIGTERM); /* at once, and nginx takes its workers along */
        waitpid(b->front.pid, NULL, 0);
    }
    *b = (Balancer){0};
}
