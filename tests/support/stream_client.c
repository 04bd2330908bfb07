#include "tests/support/stream_client.h"

#include "base/clock.h"
#include "base/memory.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* One attempt. */
typedef struct Attempt {
    Stream *stream;
    Text pending; /* what came behind the last whole event */
    int before, most;
    char replica;
    bool error; /* an event told one: the [DONE] behind it ends no answer */
} Attempt;

void stream_open(Stream *s, int seed) { *s = (Stream){.seed = seed, .noise_seed = seed}; }

void stream_close(Stream *s) {
    buffer_free(&s->text);
    buffer_free(&s->ids);
    free(s->arrivals);
    *s = (Stream){0};
}

char *stream_essence(const Stream *s) {
    Buffer b = {0};
    buffer_print(&b, "%d tokens: ", s->tokens);
    buffer_append(&b, s->ids.data, s->ids.n);
    buffer_append(&b, s->text.data, s->text.n);
    buffer_append(&b, "", 1);
    return b.data;
}

static void take_event(Attempt *a, const char *text) {
    Stream *s = a->stream;
    cJSON *event = cJSON_Parse(text);
    const cJSON *choice = json_at(event, "choices.0"), *id;
    const char *fingerprint = json_text(event, "system_fingerprint"), *piece = json_text(choice, "text");
    a->error = a->error || !choice || !fingerprint || !piece;
    if (!a->error) {
        s->mixed = s->mixed || (*s->fingerprint && strcmp(s->fingerprint, fingerprint));
        snprintf(s->fingerprint, sizeof s->fingerprint, "%s", fingerprint);
        s->seed = json_number(choice, "seed");
        s->noise_seed = json_number(choice, "noise_seed");
        buffer_text(&s->text, piece);
        cJSON_ArrayForEach(id, json_at(choice, "token_ids")) {
            buffer_print(&s->ids, "%d,", id->valueint);
            s->tokens++;
        }
        s->arrivals = xrealloc(s->arrivals, (size_t)(s->n_arrivals + 1) * sizeof *s->arrivals);
        s->arrivals[s->n_arrivals++] =
            (Arrival){.at = now_seconds(), .tokens = s->tokens, .attempt = s->attempts, .replica = a->replica};
    }
    cJSON_Delete(event);
}

/* What is cut in the middle of an event never counts: its tokens are asked for again. */
static size_t take(char *data, size_t size, size_t n, void *arg) {
    Attempt *a = arg;
    text_collect(data, size, n, &a->pending);
    char *at = a->pending.data, *end;
    while ((end = strstr(at, "\n\n")) != NULL) {
        *end = 0;
        if (!strncmp(at, "data: {", 7))
            take_event(a, at + 6);
        else if (!strcmp(at, "data: [DONE]"))
            a->stream->done = !a->error;
        at = end + 2;
        if (a->most && a->stream->tokens >= a->most) return 0;
    }
    a->pending.n -= (size_t)(at - a->pending.data);
    memmove(a->pending.data, at, a->pending.n + 1);
    return size * n;
}

static size_t take_header(char *line, size_t size, size_t n, void *arg) {
    static const char name[] = "x-noised-replica: ";
    Attempt *a = arg;
    if (size * n > sizeof name && !strncasecmp(line, name, sizeof name - 1)) a->replica = line[sizeof name - 1];
    return size * n;
}

static char *body_of(const Stream *s, const char *request) {
    Buffer b = {0};
    buffer_print(&b, "{%s,\"stream\":true,\"return_token_ids\":true,\"stream_from\":%d", request, s->tokens);
    if (s->seed >= 0) buffer_print(&b, ",\"seed\":%.0f,\"noise_seed\":%.0f", s->seed, s->noise_seed);
    if (*s->fingerprint) buffer_print(&b, ",\"if_fingerprint\":\"%s\"", s->fingerprint);
    buffer_append(&b, "}", 2);
    return b.data;
}

bool stream_go_on(Stream *s, const Daemon *d, const char *request, int most) {
    Attempt a = {.stream = s, .pending = {xcalloc(1, 1), 0}, .before = s->tokens, .most = most, .replica = '?'};
    char url[64], *body = body_of(s, request);
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    long status = 0;
    CURL *curl = curl_easy_init();
    snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/completions", d->port);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &a);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &a);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_perform(curl); /* broken off or not, what came counts */
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(list);
    curl_easy_cleanup(curl);
    free(a.pending.data);
    free(body);
    s->status = (int)status;
    s->attempts++;
    s->takeovers += a.before > 0 && s->tokens > a.before;
    return s->done;
}
