#include "tests/browser/page.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

const char page_short_fields[] =
    "\"prompt\":\"The river\",\"max_tokens\":20,\"seed\":3,\"temperature\":0.5,\"noise_scale\":1";

bool page_open(Page *p, const char *dir, const char *options, const char *fragment) {
    char url[1024];
    *p = (Page){0};
    if (!daemon_start_at(&p->daemon, dir, options)) return false;
    if (!browser_start(&p->browser)) {
        daemon_stop(&p->daemon);
        return false;
    }
    snprintf(p->url, sizeof p->url, "http://127.0.0.1:%d/", p->daemon.port);
    snprintf(url, sizeof url, "%s%s", p->url, fragment);
    browser_size(&p->browser, 1280, 1000);
    browser_open(&p->browser, url);
    return true;
}

/* The browser's own line about an answer of 4xx or 5xx, or none at all. */
static bool only_refusals(char *errors) {
    char *rest;
    for (char *line = strtok_r(errors, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (!strstr(line, "Failed to load resource")) return false;
    return true;
}

void page_close(Page *p, bool refusals) {
    char *errors = browser_errors(&p->browser), *strangers = browser_strangers(&p->browser, p->url);
    char *shown = strdup(errors);
    CHECK_MSG(refusals ? only_refusals(errors) : !*errors, "console: %s", shown);
    CHECK_MSG(!*strangers, "asked somebody else: %s", strangers);
    free(errors);
    free(shown);
    free(strangers);
    browser_stop(&p->browser);
    if (p->daemon.pid) daemon_stop(&p->daemon);
}

double page_number(Page *p, const char *expression) {
    char script[1024];
    snprintf(script, sizeof script, "return Number(%s)", expression);
    return browser_number(&p->browser, script);
}

bool page_is(Page *p, const char *expression) {
    char script[1024];
    snprintf(script, sizeof script, "return (%s) ? 1 : 0", expression);
    return browser_number(&p->browser, script) == 1;
}

void page_run(Page *p, const char *script) { cJSON_Delete(browser_run(&p->browser, script)); }

void page_unfold(Page *p) { page_run(p, "document.querySelectorAll('details').forEach(d => { d.open = true; })"); }

bool page_wait_done(Page *p, int columns) {
    char expression[256];
    snprintf(expression, sizeof expression,
             "document.getElementById('stop').ariaDisabled === 'true' && "
             "[...document.querySelectorAll('.foot')].filter(f => "
             "/ byte/.test(f.textContent)).length === %d",
             columns);
    return browser_wait(&p->browser, expression);
}

static char *read_column(Page *p, int column, const char *what) {
    char script[256];
    snprintf(script, sizeof script, "const c = document.querySelectorAll('.column')[%d]; return c ? %s : ''",
             column - 1, what);
    return browser_text(&p->browser, script);
}

char *page_column_text(Page *p, int column) {
    return read_column(p, column, "[...c.querySelectorAll('.token')].map(t => t.textContent).join('')");
}

char *page_column_foot(Page *p, int column) { return read_column(p, column, "c.querySelector('.foot').textContent"); }

char *page_answer_of(const Page *p, const char *fields, int noise_seed) {
    char body[512];
    snprintf(body, sizeof body, "{\"noise_seed\":%d,%s}", noise_seed, fields);
    Answer a = http_post(&p->daemon, "/v1/completions", body);
    char *text = xstrdup(answer_text(&a, 0));
    answer_free(&a);
    return text;
}

void page_check_column(Page *p, int column, const char *fields, int noise_seed) {
    char *shown = page_column_text(p, column), *asked = page_answer_of(p, fields, noise_seed);
    CHECK_MSG(*asked && !strcmp(shown, asked), "column %d shows \"%s\", the server says \"%s\"", column, shown, asked);
    free(shown);
    free(asked);
}

void page_check_foot(Page *p, int column, const char *expected) {
    char *foot = page_column_foot(p, column);
    CHECK_MSG(strstr(foot, expected), "\"%s\" not in \"%s\"", expected, foot);
    free(foot);
}

char *page_text_of(Page *p, const char *selector) {
    char script[256];
    snprintf(script, sizeof script, "return document.querySelector('%s')?.textContent ?? ''", selector);
    return browser_text(&p->browser, script);
}

char *page_axe(void) {
    const char *build = getenv("BUILD");
    char path[512];
    snprintf(path, sizeof path, "%s/axe/node_modules/axe-core/axe.min.js", build ? build : "build");
    return test_read_file(path, NULL);
}

void page_check_axe(Page *p, const char *axe, const char *what) {
    cJSON_Delete(browser_run(&p->browser, axe));
    char *found =
        browser_text(&p->browser, "return axe.run().then(r => r.violations.map(v => v.id + ': ' + "
                                  "v.nodes.map(n => n.html + ' ' + n.failureSummary).join('; ')).join('\\n'))");
    double passes = browser_number(&p->browser, "return axe.run().then(r => r.passes.length)");
    CHECK_MSG(!*found && passes > 20, "%s, %g passes: %s", what, passes, found);
    free(found);
}
