/* What stands in deploy/ works with the programs it is for. */
#include "base/clock.h"
#include "base/err.h"
#include "tests/support/balancer.h"
#include "tests/support/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- nginx ---- */

typedef struct Proxy {
    const char *dir;
    int port;
} Proxy;

static int in_dir(const Proxy *p, const char *command) {
    return system(
        test_text("export DIR=%s PORT=%d PATH=$PATH:/usr/sbin; { %s; } >>$DIR/out 2>&1", p->dir, p->port, command));
}

static void show_output(const Proxy *p) {
    char *text = test_read_file(test_text("%s/out", p->dir), NULL);
    CHECK_MSG(false, "%s", text ? text : "no output");
    free(text);
}

/* deploy/nginx.conf as it is, but for its port, its certificate and where the n daemons are. */
static bool proxy_start(Proxy *p, const Daemon *d, int n) {
    char command[1536], servers[256] = "";
    *p = (Proxy){.dir = test_dir(), .port = free_port()};
    for (int i = 0; i < n; i++)
        snprintf(servers + strlen(servers), sizeof servers - strlen(servers), "    server 127.0.0.1:%d\\1\\n",
                 d[i].port);
    snprintf(
        command, sizeof command,
        "sed 's/listen 443/listen 127.0.0.1:'$PORT'/; s#/etc/ssl/noised#'$DIR'/noised#; "
        "s/^    server 127.0.0.1:8080\\(.*\\)/%s/; s/fail_timeout=2s/fail_timeout=60s/' "
        "deploy/nginx.conf >$DIR/noised.conf && "
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout $DIR/noised.key -out "
        "$DIR/noised.pem && "
        "for t in client_body proxy fastcgi uwsgi scgi; do echo ${t}_temp_path $DIR/$t';'; done >$DIR/paths && "
        "echo \"daemon on; pid $DIR/pid; error_log $DIR/errors; events {} http { access_log off; include $DIR/paths; "
        "include $DIR/noised.conf; }\" >$DIR/nginx.conf && "
        "nginx -t -e $DIR/errors -c $DIR/nginx.conf && nginx -e $DIR/errors -c $DIR/nginx.conf",
        servers);
    if (in_dir(p, command) == 0) return true;
    show_output(p);
    return false;
}

static void proxy_stop(Proxy *p) { in_dir(p, "kill $(cat $DIR/pid)"); }

/* By https; body NULL: GET. */
static Answer ask(const Proxy *p, const char *path, const char *body) {
    long status = 0;
    Text text = {0}, headers = {0};
    CURL *curl = curl_easy_init();
    curl_easy_setopt(curl, CURLOPT_URL, test_text("https://127.0.0.1:%d%s", p->port, path));
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L); /* the certificate is a minute old and its own authority */
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    if (!body) curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    text.data = calloc(1, 1), headers.data = calloc(1, 1);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, text_collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, text_collect);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &headers);
    if (curl_easy_perform(curl) == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    return answer_of(status, text, headers);
}

static void expect_error(const Proxy *p, const char *path, const char *body, int status) {
    Answer a = ask(p, path, body);
    char *type = answer_header(&a, "Content-Type"), *retry = answer_header(&a, "Retry-After");
    CHECK_MSG(a.status == status, "%s: %d, not %d: %s", path, a.status, status, a.body);
    CHECK_MSG(type && !strcmp(type, "application/json"), "%s: %s", path, type);
    CHECK_MSG((status >= 502) == (retry != NULL), "%s: Retry-After %s", path, retry);
    CHECK_MSG(cJSON_GetArraySize(json_at(a.json, "error")) == 4 && json_text(a.json, "error.message") &&
                  json_text(a.json, "error.type") && json_at(a.json, "error.param") && json_at(a.json, "error.code"),
              "%s: %s", path, a.body);
    free(type);
    free(retry);
}

static bool has_nginx(void) {
    return system("PATH=$PATH:/usr/sbin; { command -v nginx && command -v openssl; } >/dev/null") == 0;
}

TEST(deploy_nginx_passes_and_refuses_in_json) {
    if (!has_nginx()) SKIP("needs nginx and openssl");
    Daemon d;
    Proxy p;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    REQUIRE(proxy_start(&p, &d, 1));
    static const char *const fine[] = {"/health", "/health/live", "/v1/models"};
    for (size_t i = 0; i < COUNTOF(fine); i++) {
        Answer a = ask(&p, fine[i], NULL);
        CHECK_MSG(a.status == 200, "%s: %d %s", fine[i], a.status, a.body);
    }
    Answer a = ask(&p, "/v1/completions", "{\"prompt\":\"The river\",\"max_tokens\":5,\"stream\":true}");
    CHECK_MSG(a.status == 200 && strstr(a.body, "data: [DONE]"), "%d %s", a.status, a.body);
    char *large = malloc(300 << 10);
    memset(large, ' ', 300 << 10);
    large[(300 << 10) - 1] = 0;
    expect_error(&p, "/v1/completions", large, 413);
    expect_error(&p, "/v1/completions", "{\"nonsense\":1}", 400); /* noised's own passes */
    expect_error(&p, "/metrics", NULL, 404);
    expect_error(&p, "/noised-error", NULL, 404);
    expect_error(&p, "/../v1/models", NULL, 400); /* what has no URI for nginx */
    expect_error(&p, "/v1/%zz", NULL, 400);
    char endless[9000] = "/v1/";
    memset(endless + 4, 'a', sizeof endless - 5);
    expect_error(&p, endless, NULL, 414);
    daemon_stop(&d);
    expect_error(&p, "/v1/models", NULL, 502);
    expect_error(&p, "/health/live", NULL, 502);
    free(large);
    proxy_stop(&p);
}

static int failures(const Proxy *p, int n) {
    int failed = 0;
    for (int i = 0; i < n; i++) {
        Answer a = ask(p, "/v1/completions", "{\"prompt\":\"The river\",\"max_tokens\":5,\"stream\":true}");
        failed += a.status != 200 || !strstr(a.body, "data: [DONE]");
    }
    return failed;
}

/* Of three daemons one is killed and another one drains: who asks sees nothing of it. */
TEST(deploy_nginx_asks_another_daemon) {
    if (!has_nginx()) SKIP("needs nginx and openssl");
    Daemon d[3];
    Proxy p;
    for (int i = 0; i < 3; i++) REQUIRE(daemon_start(&d[i], i == 1 ? CHECKPOINT_SLOW : CHECKPOINT_SMALL, NULL));
    REQUIRE(proxy_start(&p, d, 3));
    CHECK(failures(&p, 12) == 0);
    kill(d[0].pid, SIGKILL);
    CHECK(failures(&p, 12) == 0);
    int running = raw_completion(&d[1], "{\"prompt\":\"a\",\"max_tokens\":60000,\"ignore_eos\":true,\"stream\":true}");
    CHECK(raw_expect(running, "data: {"));
    kill(d[1].pid, SIGTERM); /* it drains as long as that stream lasts */
    CHECK(failures(&p, 12) == 0);
    close(running);
    waitpid(d[0].pid, NULL, 0);
    fclose(d[0].output);
    daemon_stop(&d[1]);
    daemon_stop(&d[2]);
    proxy_stop(&p);
}

static void die(Daemon *d) {
    kill(d->pid, SIGKILL);
    waitpid(d->pid, NULL, 0);
    fclose(d->output);
}

/* Each of two dies, the second when the first is back: there is always one to ask. A daemon that refused a request used
 * to be left alone for as long as fail_timeout says, well or not; here that is too long for any machine. */
TEST(deploy_nginx_asks_whoever_came_back) {
    if (!has_nginx()) SKIP("needs nginx and openssl");
    Daemon d[2];
    Proxy p;
    for (int i = 0; i < 2; i++) REQUIRE(daemon_start(&d[i], CHECKPOINT_SMALL, NULL));
    REQUIRE(proxy_start(&p, d, 2));
    for (int i = 0; i < 2; i++) {
        const char *options = test_text("--port %d", d[i].port);
        die(&d[i]);
        CHECK_MSG(failures(&p, 6) == 0, "while daemon %d is dead", i);
        REQUIRE(daemon_start(&d[i], CHECKPOINT_SMALL, options));
    }
    for (int i = 0; i < 2; i++) daemon_stop(&d[i]);
    proxy_stop(&p);
}

/* Those that are dead have the fewest connections, so they are asked first: all of them, and then one that lives. */
TEST(deploy_nginx_asks_all_of_them) {
    if (!has_nginx()) SKIP("needs nginx and openssl");
    enum { DEAD = 4 };
    Daemon d[DEAD + 1] = {{0}};
    Proxy p;
    for (int i = 0; i < DEAD; i++) d[i].port = free_port();
    REQUIRE(daemon_start(&d[DEAD], CHECKPOINT_SLOW, NULL));
    REQUIRE(proxy_start(&p, d, DEAD + 1));
    int busy = raw_completion(&d[DEAD], "{\"prompt\":\"a\",\"max_tokens\":60000,\"ignore_eos\":true,\"stream\":true}");
    CHECK(raw_expect(busy, "data: {"));
    CHECK(failures(&p, 12) == 0);
    close(busy);
    daemon_stop(&d[DEAD]);
    proxy_stop(&p);
}

/* A port whose connections nobody answers, as of a machine that has vanished: the queue of those to be accepted is
 * full. */
static int silent_port(int *listener) {
    enum { MOST = 16 };
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int last = 0;
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(*listener, (struct sockaddr *)&at, length) || listen(*listener, 0)) return -1;
    getsockname(*listener, (struct sockaddr *)&at, &length);
    for (int i = 0; i < MOST && last == 0; i++)
        last = connect(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), (struct sockaddr *)&at, length);
    return last && errno == EINPROGRESS ? ntohs(at.sin_port) : -1;
}

/* Such a machine has no connections, so it is asked first. */
TEST(deploy_nginx_passes_over_a_machine_that_vanished) {
    if (!has_nginx()) SKIP("needs nginx and openssl");
    Daemon d[2] = {{0}};
    Proxy p;
    int listener;
    d[0].port = silent_port(&listener);
    REQUIRE(d[0].port > 0);
    REQUIRE(daemon_start(&d[1], CHECKPOINT_SMALL, NULL));
    REQUIRE(proxy_start(&p, d, 2));
    CHECK(failures(&p, 2) == 0);
    daemon_stop(&d[1]);
    proxy_stop(&p);
    close(listener);
}

/* The figure that the autoscaler reads and the options that the daemons get are noised's own. */
TEST(deploy_kubernetes_names_what_there_is) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    char *hpa = test_read_file("deploy/kubernetes/base/horizontalpodautoscaler.yaml", NULL), series[64] = "\n";
    const char *name = hpa ? strstr(hpa, "metric: {name: ") : NULL;
    REQUIRE(name && sscanf(name, "metric: {name: %60[a-z_]", series + 1) == 1);
    strcat(series, " ");
    Answer a = http_get(&d, "/metrics");
    CHECK_MSG(strstr(a.body, series), "no such figure: %s", series);
    char *deployment = test_read_file("deploy/kubernetes/base/deployment.yaml", NULL), option[64];
    int n = 0;
    for (const char *at = deployment; (at = strstr(at, "- --")) != NULL; at += 4, n++) {
        CHECK(sscanf(at, "- %60[a-z-]=", option) == 1);
        CHECK_MSG(system(test_text("${BUILD:-build}/noised --help | grep -q -e '%s '", option)) == 0,
                  "no such option: %s", option);
    }
    CHECK(n > 5);
    free(hpa);
    free(deployment);
    daemon_stop(&d);
}
