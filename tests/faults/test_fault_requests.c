/* Whatever call of the system fails while the daemon serves: the request that it happens to ends with an answer, an
 * error or a closed connection, a stream beside it with its exact bytes, unless a call on its own connection failed or
 * memory ran out, and the next request is answered as ever. A fault that stays makes nothing spin. */
#include "base/macros.h"
#include "tests/faults/house.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const Question stream_beside = {
    "the stream beside it", "/v1/completions",
    "{\"prompt\":\"The mill\",\"stream\":true,\"max_tokens\":40,\"ignore_eos\":true,\"seed\":3,\"noise_seed\":4}"};

typedef struct Guests {
    House house;
    const Question *question;
    char *good, *beside; /* the right answers; NULL: any, none */
    int trials;
} Guests;

static void check_answer(const Heard *a, const char *good, const char *when) {
    bool error = a->status >= 400 && a->whole && a->error;
    CHECK_MSG(heard_right(a, good) || heard_cut(a, good) || error, "%s: %d%s%s %s", when, a->status,
              a->whole ? "" : " broken off", a->closed ? "" : " still open", a->said);
}

static void check_beside(const Guests *g, const Heard *a, bool met, const char *when) {
    CHECK_MSG(heard_right(a, g->beside) || (met && heard_cut(a, g->beside)), "%s: the stream beside it%s: %d%s %s",
              when, met ? ", which it met" : "", a->status, a->whole ? "" : " broken off", a->said);
}

static int local_port(int fd) {
    struct sockaddr_in at = {0};
    CHECK(getsockname(fd, (struct sockaddr *)&at, &(socklen_t){sizeof at}) == 0);
    return ntohs(at.sin_port);
}

/* With call CALLS none fails, and all are counted. */
static void try_fault(Guests *g, FaultCall call, FaultMode mode, long nth) {
    const House *h = &g->house;
    char when[100], *first = NULL;
    bool deaf = call == FAULT_ACCEPT && mode == FAULT_EVER;
    int beside = g->beside ? house_ask(h, &stream_beside) : -1;
    fault_describe(when, g->question->name, call, mode, nth);
    if (g->beside) first = raw_read_until(beside, "data: ");
    fault_set(h->fault, call, mode, nth);
    int fd = house_ask(h, g->question);
    char *begun = raw_read(fd, deaf ? 0.1 : FAULT_PATIENCE, NULL);
    if (g->beside) {
        int port = local_port(beside);
        Heard a = house_hear(beside, first, FAULT_PATIENCE);
        bool met = call == FAULT_MALLOC || h->fault->met[port];
        check_beside(g, &a, met, when);
        free(a.said);
        close(beside);
    }
    if (mode == FAULT_EVER && nth == 1) house_check_rest(h, when);
    if (call < FAULT_CALLS && h->fault->counted[call] >= nth) g->trials++;
    fault_rest(h->fault);
    Heard a = house_hear(fd, begun, FAULT_PATIENCE);
    check_answer(&a, g->good, when);
    free(a.said);
    close(fd);
    a = house_answer(h, g->question);
    CHECK_MSG(heard_right(&a, g->good), "%s, and again: %d %s", when, a.status, a.said);
    free(a.said);
    house_check_files(h, when);
}

static void try_question(Guests *g, const Question *q) {
    long count[FAULT_CALLS];
    Heard good = house_answer(&g->house, q);
    CHECK_MSG(heard_right(&good, NULL), "%s: %d %s", q->name, good.status, good.said);
    g->question = q;
    g->good = *q->body ? good.said : NULL;
    g->trials = 0;
    try_fault(g, FAULT_CALLS, FAULT_ONCE, 0);
    for (int i = 0; i < FAULT_CALLS; i++) count[i] = g->house.fault->counted[i];
    for (FaultCall call = 0; call < FAULT_CALLS; call++)
        for (FaultMode mode = FAULT_ONCE; mode < FAULT_MODES; mode++)
            for (long n = 1; fault_has_mode(call, mode) && n <= count[call]; n = fault_next(n, count[call]))
                try_fault(g, call, mode, n);
    printf("  %s: %d faults\n", q->name, g->trials);
    free(good.said);
}

static void try_questions(TestCheckpoint kind, const char *options, const Question *questions, size_t n, bool beside) {
    Guests g = {0};
    if (SANITIZED) SKIP("sanitizers interpose the same functions");
    test_takes_long();
    REQUIRE(house_open(&g.house, test_checkpoint(kind), options));
    if (beside) g.beside = house_answer(&g.house, &stream_beside).said;
    for (size_t i = 0; i < n; i++) try_question(&g, &questions[i]);
    house_close(&g.house);
    free(g.beside);
}

TEST(faults_under_requests) {
#define SEEDS "\"seed\":1,\"noise_seed\":2,\"max_tokens\":6"
    char large[6000]; /* handed to the workers */
    snprintf(large, sizeof large, "{\"prompt\":\"The river\",%5900s" SEEDS "}", "");
    const Question questions[] = {
        {"completion", "/v1/completions", "{\"prompt\":[\"The river\",\"The mill\"],\"n\":2,\"logprobs\":2," SEEDS "}"},
        {"stream", "/v1/completions", "{\"prompt\":\"The river\",\"stream\":true,\"stop\":\"zzz\"," SEEDS "}"},
        {"chat", "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"The river\"}]," SEEDS "}"},
        {"chat stream", "/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"The river\"}],\"stream\":true," SEEDS "}"},
        {"large body", "/v1/completions", large},
        {"metrics", "/metrics", ""},
    };
    try_questions(CHECKPOINT_SMALL, "--chat-template plain", questions, COUNTOF(questions), true);
}

/* The second socket that epoll is told of is the library's: refused, the connection is dropped without a word of the
 * request, whose head may have been read by then or not. The next one in its place used to go on with it. */
TEST(faults_epoll_drops_a_connection) {
    static const Question question = {"completion", "/v1/completions", "{\"prompt\":\"The river\"," SEEDS "}"};
    enum { TIMES = 60 };
    Guests g = {.question = &question};
    if (SANITIZED) SKIP("sanitizers interpose the same functions");
    test_takes_long();
    REQUIRE(house_open(&g.house, test_checkpoint(CHECKPOINT_SMALL), NULL));
    g.good = house_answer(&g.house, &question).said;
    for (int i = 0; i < TIMES; i++) try_fault(&g, FAULT_EPOLL, FAULT_ONCE, 2);
    CHECK_MSG(g.trials > TIMES / 2, "%d", g.trials); /* an answer may be through before the library adds the socket */
    house_close(&g.house);
    free((char *)g.good);
}

TEST(faults_under_classify) {
    static const Question question = {"classify", "/v1/classify",
                                      "{\"input\":[\"The river\",\"a\"],\"seed\":1,\"noise_samples\":3}"};
    try_questions(CHECKPOINT_CLASSES, NULL, &question, 1, false);
}
