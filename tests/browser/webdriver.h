/* webdriver: a Chromium without a window, driven through chromedriver over W3C WebDriver with libcurl. One session at a
 * time; whatever the browser refuses fails the running test. Strings that are returned are the caller's. */
#ifndef NOISED_TEST_WEBDRIVER_H
#define NOISED_TEST_WEBDRIVER_H

#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <sys/types.h>

/* WebDriver's names of keys that are no characters. */
#define KEY_CONTROL "\xEE\x80\x89"
#define KEY_ENTER "\xEE\x80\x87"
#define KEY_ESCAPE "\xEE\x80\x8C"
#define KEY_RIGHT "\xEE\x80\x94"

typedef struct Browser {
    pid_t driver;
    int port;
    char session[64]; /* "" for none */
} Browser;

/* Starts both with an empty profile, at about:blank; false (and a failed or skipped test) when there is no browser. */
bool browser_start(Browser *b);
void browser_stop(Browser *b);

void browser_open(Browser *b, const char *url);
void browser_reload(Browser *b);
void browser_size(Browser *b, int width, int height);
void browser_scheme(Browser *b, bool dark); /* prefers-color-scheme */

/* Runs the body of a function; what it returns, or what the promise it returns becomes. NULL when it throws. */
cJSON *browser_run(Browser *b, const char *script);
char *browser_text(Browser *b, const char *script);    /* the same, a string; "" for anything else */
double browser_number(Browser *b, const char *script); /* the same, a number; NaN for anything else */
/* Until the expression is true: false (and a failed test) after half a minute. */
bool browser_wait(Browser *b, const char *expression);

void browser_click(Browser *b, const char *selector); /* by a real pointer, where an element can be hit */
void browser_hover(Browser *b, const char *selector);
void browser_tap(Browser *b, const char *selector); /* by a finger, which is lifted again */
/* Over what the field holds. keys: as typed, with the characters from U+E000 that WebDriver has for other keys. */
void browser_type(Browser *b, const char *selector, const char *keys);
void browser_keys(Browser *b, const char *key, const char *modifier); /* one key, the modifier NULL or held down */

/* Errors in the console since the last call, one a line; "" for none. */
char *browser_errors(Browser *b);
/* Requests since the last call to anything but url's origin (data: aside), one a line. */
char *browser_strangers(Browser *b, const char *url);
void browser_screenshot(Browser *b, const char *path);

#endif
