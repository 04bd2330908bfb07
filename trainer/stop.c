#include "trainer/stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t received;

static void on_signal(int signal_number) { received = signal_number; }

void stop_install(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup ignores it */
        sigaction(SIGHUP, &action, NULL);
}

int stop_signal(void) { return received; }
