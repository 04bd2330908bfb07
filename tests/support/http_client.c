#include "tests/support/http_client.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* cJSON cuts a string at \u0000, which a model of bytes does write: U+2400 stands for it here. */
static cJSON *parse_json(const char *text, size_t n) {
    char *copy = strndup(text, n);
    for (char *p = copy; (p = strstr(p, "\\u0000")) != NULL;) memcpy(p, "\\u2400", 6);
    cJSON *json = cJSON_Parse(copy);
    free(copy);
    return json;
}

/* ---- libcurl ---- */

/* What comes is kept by other means than the server's, whose memory a test may take away in this process. */
static Text no_text(void) {
    Text t = {strdup(""), 0};
    BUG_ON(!t.data);
    return t;
}

size_t text_collect(char *data, size_t size, size_t n, void *arg) {
    Text *t = arg;
    t->data = realloc(t->data, t->n + size * n + 1);
    BUG_ON(!t->data);
    memcpy(t->data + t->n, data, size * n);
    t->n += size * n;
    t->data[t->n] = 0;
    return size * n;
}

static void drop_json(void *json) { cJSON_Delete(json); }

Answer answer_of(long status, Text body, Text headers) {
    Answer a = {
        .status = (int)status, .body = body.data, .headers = headers.data, .json = parse_json(body.data, body.n)};
    test_keep(a.body, free);
    test_keep(a.headers, free);
    if (a.json) test_keep(a.json, drop_json);
    return a;
}

Answer http_request(const Daemon *d, const char *method, const char *path, const char *header, const char *body) {
    Text text = no_text(), head = no_text();
    char url[512];
    CURL *curl = curl_easy_init();
    struct curl_slist *list = NULL;
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", d->port, path);
    bool typed = header && !strncasecmp(header, "Content-Type:", 13);
    if (body && !typed) list = curl_slist_append(list, "Content-Type: application/json");
    list = curl_slist_append(list, "Expect:");
    if (header) list = curl_slist_append(list, header);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, text_collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, text_collect);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &head);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)PATIENCE);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    if (body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
    }
    if (method && !strcmp(method, "HEAD")) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (method) curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    long status = 0;
    if (curl_easy_perform(curl) == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(list);
    curl_easy_cleanup(curl);
    return answer_of(status, text, head);
}

Answer http_get(const Daemon *d, const char *path) { return http_request(d, NULL, path, NULL, NULL); }

Answer http_post(const Daemon *d, const char *path, const char *json) {
    return http_request(d, NULL, path, NULL, json);
}

Answer metrics_now(const Daemon *d) {
    usleep(1010000);
    return http_get(d, "/metrics");
}

void answer_free(Answer *a) {
    test_drop(a->body);
    test_drop(a->headers);
    test_drop(a->json);
    *a = (Answer){0};
}

char *answer_header(const Answer *a, const char *name) {
    size_t n = strlen(name);
    for (const char *line = a->headers; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncasecmp(line, name, n) || line[n] != ':') continue;
        const char *value = line + n + 1 + strspn(line + n + 1, " ");
        return strndup(value, strcspn(value, "\r\n"));
    }
    return NULL;
}

static const char *error_type(int status) {
    return status == 401   ? "authentication_error"
           : status == 429 ? "rate_limit_error"
           : status == 501 ? "not_supported_error"
           : status == 503 ? "unavailable_error"
                           : "invalid_request_error";
}

void answer_check_error(const Answer *a, int status, const char *param, const char *what) {
    const cJSON *error = json_at(a->json, "error"), *p = json_at(error, "param");
    CHECK_MSG(a->status == status, "%s: status %d, not %d: %.200s", what, a->status, status, a->body);
    CHECK_MSG(json_text(error, "message") && *json_text(error, "message"), "%s: %s", what, a->body);
    CHECK_MSG(json_text(error, "type") && !strcmp(json_text(error, "type"), error_type(status)), "%s: %s", what,
              a->body);
    CHECK_MSG(json_at(error, "code"), "%s: %s", what, a->body);
    CHECK_MSG(*param ? cJSON_IsString(p) && !strcmp(p->valuestring, param) : cJSON_IsNull(p),
              "%s: not param \"%s\": %s", what, param, a->body);
    CHECK_MSG(cJSON_GetArraySize(error) == 4 && cJSON_GetArraySize(a->json) == 1, "%s: %s", what, a->body);
}

void check_bodies(const Daemon *d, const char *path, const Bad *bad, size_t n) {
    for (size_t i = 0; i < n; i++) {
        Answer a = http_post(d, path, bad[i].body);
        if (bad[i].status == 200)
            CHECK_MSG(a.status == 200, "%s: %d %.200s", bad[i].body, a.status, a.body);
        else
            answer_check_error(&a, bad[i].status, bad[i].param, bad[i].body);
        answer_free(&a);
    }
}

/* ---- JSON ---- */

const cJSON *json_at(const cJSON *root, const char *path) {
    while (root && *path) {
        size_t n = strcspn(path, ".");
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        root = cJSON_IsArray(root) ? cJSON_GetArrayItem(root, atoi(key)) : cJSON_GetObjectItemCaseSensitive(root, key);
        path += n + (path[n] == '.');
    }
    return root;
}

const char *json_text(const cJSON *root, const char *path) {
    const cJSON *item = json_at(root, path);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

bool json_says(const cJSON *root, const char *path, const char *text) {
    const char *value = json_text(root, path);
    return value && !strcmp(value, text);
}

double json_number(const cJSON *root, const char *path) {
    const cJSON *item = json_at(root, path);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

char *json_raw(const cJSON *root, const char *path) {
    const cJSON *item = json_at(root, path);
    return item ? cJSON_PrintUnformatted(item) : NULL;
}

bool json_same(const cJSON *a, const char *path_a, const cJSON *b, const char *path_b) {
    char *x = json_raw(a, path_a), *y = json_raw(b, path_b);
    bool same = x && y && !strcmp(x, y);
    if (!same) printf("  %s: %.300s\n  %s: %.300s\n", path_a, x ? x : "-", path_b, y ? y : "-");
    free(x);
    free(y);
    return same;
}

const char *answer_text(const Answer *a, int index) {
    char path[64];
    snprintf(path, sizeof path, "choices.%d.text", index);
    const char *text = json_text(a->json, path);
    return text ? text : "";
}

/* ---- server-sent events ---- */

static void add_event(Events *e, const char *data, size_t n) {
    cJSON *json = parse_json(data, n);
    e->malformed = e->malformed || !json || e->done;
    if (!json) return;
    e->data = xrealloc(e->data, (size_t)(e->n + 1) * sizeof *e->data);
    e->data[e->n++] = json;
}

Events events_parse(const char *body) {
    Events e = {0};
    for (const char *p = body; *p;) {
        const char *end = strstr(p, "\n\n");
        if (!end || memchr(p, '\n', (size_t)(end - p))) {
            e.malformed = true;
            return e;
        }
        size_t n = (size_t)(end - p);
        if (*p == ':') {
            e.comments++;
        } else if (strncmp(p, "data: ", 6)) {
            e.malformed = true;
        } else if (n == 12 && !strncmp(p, "data: [DONE]", 12)) {
            e.malformed = e.malformed || e.done;
            e.done = true;
        } else {
            add_event(&e, p + 6, n - 6);
        }
        p = end + 2;
    }
    return e;
}

Events events_parse_named(const char *body) {
    Buffer data = {0};
    while (body && *body) {
        const char *end = strchr(body, '\n'), *name = body;
        if (strncmp(body, "event: ", 7) || !end || strncmp(end + 1, "data: {\"type\":\"", 15)) {
            CHECK_MSG(false, "%.60s", body);
            break;
        }
        CHECK_MSG(!strncmp(name + 7, end + 16, (size_t)(end - name - 7)), "%.60s", body);
        const char *next = strstr(end, "\n\n");
        if (!next) break;
        buffer_append(&data, end + 1, (size_t)(next + 2 - end - 1));
        body = next + 2;
    }
    buffer_append(&data, "", 1);
    Events e = events_parse(data.data);
    buffer_free(&data);
    return e;
}

void events_free(Events *e) {
    for (int i = 0; i < e->n; i++) cJSON_Delete(e->data[i]);
    free(e->data);
    *e = (Events){0};
}

char *events_text(const Events *e, int index) {
    Text text = no_text();
    for (int i = 0; i < e->n; i++) {
        const char *text_of = json_text(e->data[i], "choices.0.text");
        const char *delta = text_of ? text_of : json_text(e->data[i], "choices.0.delta.content");
        if (delta && json_number(e->data[i], "choices.0.index") == index)
            text_collect((char *)(uintptr_t)delta, 1, strlen(delta), &text);
    }
    return text.data;
}

const char *events_finish(const Events *e, int index) {
    const char *found = NULL;
    for (int i = 0; i < e->n; i++) {
        const char *reason = json_text(e->data[i], "choices.0.finish_reason");
        if (!reason || json_number(e->data[i], "choices.0.index") != index) continue;
        if (found) return NULL;
        found = reason;
    }
    return found;
}

/* ---- bare sockets ---- */

int raw_connect(const Daemon *d) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)d->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

bool raw_send(int fd, const char *text, size_t n) { return send(fd, text, n, MSG_NOSIGNAL) == (ssize_t)n; }

/* False at the end of the stream or of the time. */
static bool read_more(int fd, Text *t, double until, bool *closed) {
    char block[4096];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    double left = until - now_seconds();
    if (left <= 0 || poll(&p, 1, (int)(1000 * left) + 1) != 1) return false;
    ssize_t n = recv(fd, block, sizeof block, 0);
    *closed = n <= 0;
    if (n > 0) text_collect(block, 1, (size_t)n, t);
    return n > 0;
}

char *raw_read(int fd, double seconds, bool *closed) {
    Text t = no_text();
    bool end = false;
    for (double until = now_seconds() + seconds; read_more(fd, &t, until, &end);) {}
    if (closed) *closed = end;
    return t.data;
}

char *raw_read_until(int fd, const char *what) {
    Text t = no_text();
    bool end = false;
    for (double until = now_seconds() + PATIENCE; !strstr(t.data, what) && read_more(fd, &t, until, &end);) {}
    return t.data;
}

bool raw_expect(int fd, const char *what) {
    char *text = raw_read_until(fd, what);
    bool found = strstr(text, what) != NULL;
    free(text);
    return found;
}

bool drain_begins(const Daemon *d, const char *path, const char *json) {
    for (bool draining = false; !draining;) { /* the signal is on its way */
        Answer a = http_get(d, "/health");
        const char *status = json_text(a.json, "status");
        CHECK_MSG(status, "%s", a.body);
        bool told = status != NULL;
        draining = told && !strcmp(status, "draining");
        answer_free(&a);
        if (!told) return false;
    }
    Answer a = http_post(d, path, json);
    CHECK_MSG(a.status == 503 && json_text(a.json, "error.code") &&
                  !strcmp(json_text(a.json, "error.code"), "shutting_down"),
              "%d: %s", a.status, a.body);
    answer_free(&a);
    return true;
}

int raw_completion(const Daemon *d, const char *body) {
    char text[2048];
    int fd = raw_connect(d);
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
             "%zu\r\n\r\n%s",
             strlen(body), body);
    CHECK(fd >= 0 && raw_send(fd, text, strlen(text)));
    return fd;
}

int token_of(const Daemon *d, const char *text) {
    Answer a = http_post(d, "/tokenize", test_text("{\"content\":\"%s\"}", text));
    CHECK(cJSON_GetArraySize(json_at(a.json, "tokens")) == 1);
    return (int)json_number(a.json, "tokens.0");
}
