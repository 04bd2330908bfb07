#include "tests/bench/load_client.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"

#include <curl/curl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Transfer {
    LoadAnswer *answer;
    size_t capacity; /* of answer->body */
    size_t seen;     /* bytes of it that have been searched for events */
    int capacity_events;
} Transfer;

/* ---- receiving ---- */

static const char TEXT_KEY[] = "\"text\":\"";

/* Behind the first `"text":"` of body[0..n): NULL when there is none. Inside a JSON string the quotes are escaped. */
static const char *find_text(const char *body, size_t n) {
    const char *found = memmem(body, n, TEXT_KEY, sizeof TEXT_KEY - 1);
    return found ? found + sizeof TEXT_KEY - 1 : NULL;
}

static void stamp(Transfer *t, double now) {
    LoadAnswer *a = t->answer;
    if (t->capacity_events == a->n_events) {
        t->capacity_events = 2 * t->capacity_events + 16;
        a->events = xrealloc(a->events, (size_t)t->capacity_events * sizeof *a->events);
    }
    a->events[a->n_events++] = now;
}

/* Events without text (the last one, usage, [DONE]) are nothing that a reader waits for. */
static void find_events(Transfer *t) {
    const LoadAnswer *a = t->answer;
    double now = now_seconds();
    for (;;) {
        const char *event = a->body + t->seen, *end = memmem(event, a->n_body - t->seen, "\n\n", 2);
        if (!end) return;
        const char *text = find_text(event, (size_t)(end - event));
        if (text && *text != '"') stamp(t, now);
        t->seen += (size_t)(end - event) + 2;
    }
}

static size_t receive(char *data, size_t size, size_t count, void *arg) {
    Transfer *t = arg;
    LoadAnswer *a = t->answer;
    size_t n = size * count;
    if (a->n_body + n + 1 > t->capacity) {
        t->capacity = 2 * (a->n_body + n) + 4096;
        a->body = xrealloc(a->body, t->capacity);
    }
    memcpy(a->body + a->n_body, data, n);
    a->n_body += n;
    a->body[a->n_body] = 0;
    find_events(t);
    return n;
}

/* ---- the run ---- */

typedef struct Run {
    CURLM *multi;
    struct curl_slist *headers;
    Transfer *transfers;
    double start;
} Run;

static void begin(Run *run, const LoadRequest *r, LoadAnswer *a, Transfer *t) {
    CURL *curl = curl_easy_init();
    BUG_ON(!curl);
    *a = (LoadAnswer){.body = xcalloc(1, 1), .sent = now_seconds()};
    a->due = r->at > 0 ? run->start + r->at : a->sent;
    *t = (Transfer){.answer = a};
    curl_easy_setopt(curl, CURLOPT_URL, r->url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, run->headers);
    if (r->key) curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
    if (r->key) curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, r->key);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, r->body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(r->body));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, t);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 1200L);
    BUG_ON(curl_multi_add_handle(run->multi, curl));
}

static int finish_some(Run *run) {
    int n = 0, left;
    for (CURLMsg *m; (m = curl_multi_info_read(run->multi, &left)) != NULL;) {
        CURL *curl = m->easy_handle;
        CURLcode rc = m->data.result;
        Transfer *t;
        long status = 0;
        curl_easy_getinfo(curl, CURLINFO_PRIVATE, (char **)&t);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        t->answer->ended = now_seconds();
        t->answer->status = rc == CURLE_OK ? (int)status : 0;
        t->answer->error = rc == CURLE_OK ? NULL : curl_easy_strerror(rc);
        curl_multi_remove_handle(run->multi, curl);
        curl_easy_cleanup(curl);
        n++;
    }
    return n;
}

double load_run(const LoadRequest *requests, LoadAnswer *answers, int n, int most) {
    Run run = {.multi = curl_multi_init(), .transfers = xcalloc((size_t)MAX(n, 1), sizeof *run.transfers)};
    BUG_ON(!run.multi);
    curl_multi_setopt(run.multi, CURLMOPT_MAXCONNECTS, (long)most);
    run.headers = curl_slist_append(NULL, "Content-Type: application/json");
    run.headers = curl_slist_append(run.headers, "Expect:");
    run.start = now_seconds();
    for (int next = 0, flying = 0, left, finished; next < n || flying > 0;) {
        for (; next < n && flying < most && now_seconds() - run.start >= requests[next].at; next++, flying++)
            begin(&run, &requests[next], &answers[next], &run.transfers[next]);
        BUG_ON(curl_multi_perform(run.multi, &left));
        finished = finish_some(&run);
        flying -= finished;
        double wait = next < n && flying < most ? requests[next].at - (now_seconds() - run.start) : 1;
        if (finished == 0 && wait > 0) curl_multi_poll(run.multi, NULL, 0, (int)ceil(1000 * MIN(wait, 1)), NULL);
    }
    double seconds = now_seconds() - run.start;
    curl_multi_cleanup(run.multi);
    curl_slist_free_all(run.headers);
    free(run.transfers);
    return seconds;
}

void load_answers_free(LoadAnswer *answers, int n) {
    for (int i = 0; i < n; i++) {
        free(answers[i].body);
        free(answers[i].events);
    }
}

/* ---- what an answer says ---- */

int load_answer_tokens(const LoadAnswer *a) {
    static const char key[] = "\"completion_tokens\":";
    const char *last = NULL;
    for (const char *p = a->body; (p = strstr(p, key)) != NULL; p++) last = p;
    return last ? atoi(last + sizeof key - 1) : a->n_events;
}

char *load_answer_text(const LoadAnswer *a) {
    char *text = xcalloc(1, a->n_body + 1), *at = text;
    const char *p = a->body;
    while ((p = find_text(p, a->n_body - (size_t)(p - a->body))) != NULL)
        for (; *p && *p != '"'; p++) {
            if (*p == '\\' && p[1]) *at++ = *p++;
            *at++ = *p;
        }
    return text;
}
