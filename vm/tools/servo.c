/* servo FILE PERIOD_US [PRIORITY]: wakes up at each multiple of the period, as a control loop does, with SCHED_FIFO
 * (0: an ordinary program). It measures its own lateness. At SIGTERM it writes to FILE, for each activation, the time
 * on CLOCK_MONOTONIC and how late it was, in nanoseconds. SIGUSR1 does nothing. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define MOST 4000000

static long long now[MOST];
static int late[MOST];
static volatile sig_atomic_t over;

static void on_signal(int number)
{
	over |= number == SIGTERM;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct sched_param priority = { .sched_priority = argc > 3 ? atoi(argv[3]) : 80 };
	struct timespec due, at;
	long long period;
	int n = 0;
	FILE *file;

	if (argc < 3) {
		fprintf(stderr, "usage: servo FILE PERIOD_US [PRIORITY]\n");
		return 2;
	}
	period = atoll(argv[2]) * 1000;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		perror("servo: mlockall");
	for (n = 0; n < MOST; n += 512) /* all its pages are there before it begins */
		now[n] = late[n] = 1;
	if (priority.sched_priority && sched_setscheduler(0, SCHED_FIFO, &priority))
		perror("servo: sched_setscheduler");
	clock_gettime(CLOCK_MONOTONIC, &due);
	for (n = 0; n < MOST && !over;) {
		due.tv_nsec += period;
		while (due.tv_nsec >= 1000000000) {
			due.tv_nsec -= 1000000000;
			due.tv_sec++;
		}
		while (!over && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL))
			; /* a signal */
		clock_gettime(CLOCK_MONOTONIC, &at);
		now[n] = at.tv_sec * 1000000000LL + at.tv_nsec;
		late[n++] = (at.tv_sec - due.tv_sec) * 1000000000LL + at.tv_nsec - due.tv_nsec;
	}
	file = fopen(argv[1], "w");
	if (!file) {
		perror(argv[1]);
		return 1;
	}
	for (int i = 0; i < n; i++)
		fprintf(file, "%lld %d\n", now[i], late[i]);
	return fclose(file) != 0;
}
