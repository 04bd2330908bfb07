#include "tests/browser/webdriver.h"

#include "base/clock.h"
#include "base/memory.h"
#include "tests/support/http_client.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <math.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the protocol ---- */

/* Sends and takes over body (NULL: GET, or DELETE of the session); the "value" of the answer, NULL when there is none.
 */
static cJSON *command(Browser *b, const char *method, const char *path, cJSON *body) {
    char url[256], *sent = body ? cJSON_PrintUnformatted(body) : NULL;
    Text text = {xcalloc(1, 1), 0};
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    snprintf(url, sizeof url, "http://127.0.0.1:%d/session%s%s%s", b->port, *b->session ? "/" : "", b->session, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, text_collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 120L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    if (sent) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, sent);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    CURLcode rc = curl_easy_perform(curl);
    cJSON *answer = rc == CURLE_OK ? cJSON_Parse(text.data) : NULL;
    cJSON *value = cJSON_DetachItemFromObject(answer, "value");
    const cJSON *error = cJSON_GetObjectItem(value, "error");
    if (!answer || error) {
        const cJSON *why = cJSON_GetObjectItem(value, "message");
        test_fail(__FILE__, __LINE__, "%s %s: %.600s", method, path,
                  cJSON_IsString(why) ? why->valuestring : curl_easy_strerror(rc));
        cJSON_Delete(value);
        value = NULL;
    }
    cJSON_Delete(answer);
    cJSON_Delete(body);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    free(text.data);
    free(sent);
    return value;
}

static void post(Browser *b, const char *path, cJSON *body) { cJSON_Delete(command(b, "POST", path, body)); }

static cJSON *object(const char *key, cJSON *value) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToObject(o, key, value);
    return o;
}

static cJSON *words(const char *const *list, size_t n) {
    cJSON *a = cJSON_CreateArray();
    for (size_t i = 0; i < n; i++) cJSON_AddItemToArray(a, cJSON_CreateString(list[i]));
    return a;
}

/* ---- the session ---- */

/* chromedriver says on which port it listens: one that the system found free for IPv4, and then it ends because another
 * program has the same one for IPv6, now and then. */
static bool start_driver(Browser *b) {
    int ends[2];
    char line[256];
    BUG_ON(pipe2(ends, O_CLOEXEC));
    fflush(stdout);
    b->driver = fork();
    BUG_ON(b->driver < 0);
    if (b->driver == 0) {
        setpgid(0, 0);
        dup2(ends[1], STDOUT_FILENO);
        execlp("chromedriver", "chromedriver", "--port=0", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *output = fdopen(ends[0], "r");
    while (!b->port && fgets(line, sizeof line, output)) {
        const char *at = strstr(line, "successfully on port ");
        if (at) b->port = atoi(at + strlen("successfully on port "));
    }
    fclose(output);
    if (!b->port) waitpid(b->driver, NULL, 0);
    return b->port > 0;
}

static cJSON *capabilities(const char *profile) {
    char folder[300];
    snprintf(folder, sizeof folder, "--user-data-dir=%s", profile);
    const char *const flags[] = {"--headless",
                                 "--no-sandbox",
                                 "--disable-gpu",
                                 "--disable-quic",
                                 "--no-first-run",
                                 "--disable-background-networking",
                                 "--disable-component-update",
                                 "--disable-sync",
                                 "--hide-scrollbars",
                                 folder};
    cJSON *wanted = cJSON_CreateObject(), *logs = cJSON_CreateObject();
    cJSON_AddStringToObject(logs, "browser", "ALL");
    cJSON_AddStringToObject(logs, "performance", "ALL");
    cJSON_AddItemToObject(wanted, "goog:loggingPrefs", logs);
    cJSON_AddItemToObject(wanted, "goog:chromeOptions", object("args", words(flags, COUNTOF(flags))));
    return object("capabilities", object("alwaysMatch", wanted));
}

static cJSON *take_log(Browser *b, const char *type) {
    return command(b, "POST", "/se/log", object("type", cJSON_CreateString(type)));
}

/* The page a browser begins with (chrome://newtab) asks for things of its own, chrome-untrusted: and its maker's site,
 * which would be taken for what the tested page asks. */
static void leave_first_page(Browser *b) {
    browser_open(b, "about:blank");
    cJSON_Delete(take_log(b, "performance"));
    cJSON_Delete(take_log(b, "browser"));
}

bool browser_start(Browser *b) {
    *b = (Browser){0};
    bool started = false;
    for (int tries = 0; !started && tries < 5; tries++) started = start_driver(b);
    if (!started) {
        *b = (Browser){0};
        test_fail(__FILE__, __LINE__, "no chromedriver: apt-get install chromium chromium-driver");
        return false;
    }
    const char *profile = test_dir();
    cJSON *value = command(b, "POST", "", capabilities(profile));
    const cJSON *id = cJSON_GetObjectItem(value, "sessionId");
    if (cJSON_IsString(id)) snprintf(b->session, sizeof b->session, "%s", id->valuestring);
    cJSON_Delete(value);
    if (*b->session)
        leave_first_page(b);
    else
        browser_stop(b);
    return *b->session != 0;
}

void browser_stop(Browser *b) {
    if (*b->session) cJSON_Delete(command(b, "DELETE", "", NULL));
    if (b->driver > 0) {
        kill(-b->driver, SIGTERM);
        waitpid(b->driver, NULL, 0);
    }
    *b = (Browser){0};
}

void browser_open(Browser *b, const char *url) { post(b, "/url", object("url", cJSON_CreateString(url))); }
void browser_reload(Browser *b) { post(b, "/refresh", cJSON_CreateObject()); }

/* Chromium's own protocol, for what WebDriver has no word for. */
static cJSON *chromium(Browser *b, const char *name, cJSON *params) {
    cJSON *body = object("params", params);
    cJSON_AddStringToObject(body, "cmd", name);
    return command(b, "POST", "/goog/cdp/execute", body);
}

void browser_size(Browser *b, int width, int height) {
    cJSON *params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "width", width);
    cJSON_AddNumberToObject(params, "height", height);
    cJSON_AddNumberToObject(params, "deviceScaleFactor", 1);
    cJSON_AddBoolToObject(params, "mobile", false);
    cJSON_Delete(chromium(b, "Emulation.setDeviceMetricsOverride", params));
}

void browser_scheme(Browser *b, bool dark) {
    cJSON *feature = cJSON_CreateObject(), *features = cJSON_CreateArray();
    cJSON_AddStringToObject(feature, "name", "prefers-color-scheme");
    cJSON_AddStringToObject(feature, "value", dark ? "dark" : "light");
    cJSON_AddItemToArray(features, feature);
    cJSON_Delete(chromium(b, "Emulation.setEmulatedMedia", object("features", features)));
}

/* ---- scripts ---- */

cJSON *browser_run(Browser *b, const char *script) {
    cJSON *body = object("script", cJSON_CreateString(script));
    cJSON_AddItemToObject(body, "args", cJSON_CreateArray());
    return command(b, "POST", "/execute/sync", body);
}

char *browser_text(Browser *b, const char *script) {
    cJSON *value = browser_run(b, script);
    char *text = xstrdup(cJSON_IsString(value) ? value->valuestring : "");
    cJSON_Delete(value);
    return text;
}

double browser_number(Browser *b, const char *script) {
    cJSON *value = browser_run(b, script);
    double number = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    cJSON_Delete(value);
    return number;
}

bool browser_wait(Browser *b, const char *expression) {
    size_t n = strlen(expression) + 32;
    char *script = xmalloc(n);
    bool met = false;
    snprintf(script, n, "return !!(%s)", expression);
    for (double until = now_seconds() + PATIENCE; !met && now_seconds() < until; usleep(20000)) {
        cJSON *value = browser_run(b, script);
        met = cJSON_IsTrue(value);
        bool failed = !value;
        cJSON_Delete(value);
        if (failed) break;
    }
    if (!met) test_fail(__FILE__, __LINE__, "not in %d s: %s", PATIENCE, expression);
    free(script);
    return met;
}

/* ---- the reader's hands ---- */

/* The path of an element, "" when there is none; `what` follows. */
static void element_path(Browser *b, const char *selector, const char *what, char path[256]) {
    cJSON *body = object("using", cJSON_CreateString("css selector"));
    cJSON_AddStringToObject(body, "value", selector);
    cJSON *value = command(b, "POST", "/element", body);
    snprintf(path, 256, "/element/%s%s", cJSON_IsObject(value) ? value->child->valuestring : "", what);
    cJSON_Delete(value);
}

void browser_click(Browser *b, const char *selector) {
    char path[256];
    element_path(b, selector, "/click", path);
    post(b, path, cJSON_CreateObject());
}

void browser_type(Browser *b, const char *selector, const char *keys) {
    char path[256];
    static const char all[] = "\xEE\x80\x89"
                              "a"
                              "\xEE\x80\x80"; /* Control, A, nothing held down any more */
    size_t n = sizeof all + strlen(keys);
    char *text = xmalloc(n);
    snprintf(text, n, "%s%s", all, keys);
    element_path(b, selector, "/value", path);
    post(b, path, object("text", cJSON_CreateString(text)));
    free(text);
}

/* A pointer goes to the element, and a finger presses there. */
static void point(Browser *b, const char *selector, const char *type, bool press) {
    cJSON *body = object("using", cJSON_CreateString("css selector"));
    cJSON_AddStringToObject(body, "value", selector);
    cJSON *move = object("origin", command(b, "POST", "/element", body)), *moves = cJSON_CreateArray();
    cJSON_AddStringToObject(move, "type", "pointerMove");
    cJSON_AddNumberToObject(move, "duration", 0);
    cJSON_AddNumberToObject(move, "x", 0);
    cJSON_AddNumberToObject(move, "y", 0);
    cJSON_AddItemToArray(moves, move);
    for (int up = 0; press && up < 2; up++) {
        cJSON *action = object("button", cJSON_CreateNumber(0));
        cJSON_AddStringToObject(action, "type", up ? "pointerUp" : "pointerDown");
        cJSON_AddItemToArray(moves, action);
    }
    cJSON *pointer = object("actions", moves), *sources = cJSON_CreateArray();
    cJSON_AddStringToObject(pointer, "type", "pointer");
    cJSON_AddStringToObject(pointer, "id", type);
    cJSON_AddItemToObject(pointer, "parameters", object("pointerType", cJSON_CreateString(type)));
    cJSON_AddItemToArray(sources, pointer);
    post(b, "/actions", object("actions", sources));
}

void browser_hover(Browser *b, const char *selector) { point(b, selector, "mouse", false); }
void browser_tap(Browser *b, const char *selector) { point(b, selector, "touch", true); }

static void add_key(cJSON *actions, const char *type, const char *key) {
    cJSON *action = cJSON_CreateObject();
    cJSON_AddStringToObject(action, "type", type);
    cJSON_AddStringToObject(action, "value", key);
    cJSON_AddItemToArray(actions, action);
}

void browser_keys(Browser *b, const char *key, const char *modifier) {
    cJSON *actions = cJSON_CreateArray(), *sources = cJSON_CreateArray();
    if (modifier) add_key(actions, "keyDown", modifier);
    add_key(actions, "keyDown", key);
    add_key(actions, "keyUp", key);
    if (modifier) add_key(actions, "keyUp", modifier);
    cJSON *keyboard = object("actions", actions);
    cJSON_AddStringToObject(keyboard, "type", "key");
    cJSON_AddStringToObject(keyboard, "id", "keyboard");
    cJSON_AddItemToArray(sources, keyboard);
    post(b, "/actions", object("actions", sources));
}

/* ---- what the browser saw ---- */

static void add_line(Text *lines, const char *line) {
    text_collect((char *)line, 1, strlen(line), lines);
    text_collect((char *)"\n", 1, 1, lines);
}

char *browser_errors(Browser *b) {
    Text lines = {xcalloc(1, 1), 0};
    const cJSON *entry;
    cJSON *log = take_log(b, "browser");
    cJSON_ArrayForEach(entry, log) {
        const cJSON *level = cJSON_GetObjectItem(entry, "level"), *message = cJSON_GetObjectItem(entry, "message");
        if (cJSON_IsString(level) && strcmp(level->valuestring, "SEVERE")) continue;
        add_line(&lines, cJSON_IsString(message) ? message->valuestring : "?");
    }
    cJSON_Delete(log);
    return lines.data;
}

char *browser_strangers(Browser *b, const char *url) {
    Text lines = {xcalloc(1, 1), 0};
    const cJSON *entry;
    cJSON *log = take_log(b, "performance");
    cJSON_ArrayForEach(entry, log) {
        const cJSON *text = cJSON_GetObjectItem(entry, "message");
        cJSON *event = cJSON_IsString(text) ? cJSON_Parse(text->valuestring) : NULL;
        const cJSON *message = cJSON_GetObjectItem(event, "message"), *method = cJSON_GetObjectItem(message, "method");
        const cJSON *request = cJSON_GetObjectItem(cJSON_GetObjectItem(message, "params"), "request");
        const cJSON *to = cJSON_GetObjectItem(request, "url");
        bool sent =
            cJSON_IsString(method) && !strcmp(method->valuestring, "Network.requestWillBeSent") && cJSON_IsString(to);
        if (sent && strncmp(to->valuestring, url, strlen(url)) && strncmp(to->valuestring, "data:", 5))
            add_line(&lines, to->valuestring);
        cJSON_Delete(event);
    }
    cJSON_Delete(log);
    return lines.data;
}

void browser_screenshot(Browser *b, const char *path) {
    cJSON *value = command(b, "GET", "/screenshot", NULL);
    if (!cJSON_IsString(value)) {
        cJSON_Delete(value);
        return;
    }
    size_t n = strlen(value->valuestring);
    unsigned char *png = xmalloc(n);
    int bytes = EVP_DecodeBlock(png, (const unsigned char *)value->valuestring, (int)n);
    while (n > 0 && value->valuestring[n - 1] == '=') n--, bytes--; /* padding was decoded as zeros */
    if (bytes > 0)
        test_write_file(path, png, (size_t)bytes);
    else
        test_fail(__FILE__, __LINE__, "%s: the picture is no base64", path);
    free(png);
    cJSON_Delete(value);
}
