/* spawner SECONDS [FILE [PAUSE]]: a hostile process. One thread per CPU repeatedly tries to pin itself there, and
 * then works for 50 us each millisecond on any CPU that it gets. A short unpinned thread starts every PAUSE (0.02)
 * seconds. At the end (and each second, for FILE) it reports for each CPU the kernel's answer (0: accepted; 22 =
 * EINVAL: refused) and how often its threads ran there. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CPUS = 1024 };
static atomic_long seen[MAX_CPUS];
static atomic_int answer[MAX_CPUS];
static atomic_int over;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void work(double seconds)
{
	double end = now() + seconds;
	do {
		int cpu = sched_getcpu();
		if (cpu >= 0 && cpu < MAX_CPUS)
			atomic_fetch_add(&seen[cpu], 1);
	} while (now() < end);
}

static void *intruder(void *arg)
{
	long cpu = (long)arg;
	struct timespec pause = { 0, 1000000 };
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	while (!over) {
		answer[cpu] = sched_setaffinity(0, sizeof only, &only) ? errno : 0;
		nanosleep(&pause, NULL);
		work(50e-6);
	}
	return NULL;
}

static void *passer_by(void *arg)
{
	(void)arg;
	work(1e-3);
	return NULL;
}

static void tell(FILE *to, long cpus)
{
	for (long cpu = 0; cpu < cpus; cpu++)
		fprintf(to, "cpu=%ld errno=%d seen=%ld\n", cpu, answer[cpu], seen[cpu]);
	fflush(to);
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	double end, next, next_thread = 0, between = argc > 3 ? atof(argv[3]) : 0.02;
	pthread_t thread;

	if (argc < 2) {
		fprintf(stderr, "usage: spawner SECONDS [FILE [PAUSE]]\n");
		return 2;
	}
	if (cpus > MAX_CPUS)
		cpus = MAX_CPUS;
	end = now() + atof(argv[1]);
	next = now() + 1;
	for (long cpu = 0; cpu < cpus; cpu++)
		pthread_create(&thread, NULL, intruder, (void *)cpu);
	while (now() < end) {
		struct timespec pause = { 0, 20000000 };
		if (now() >= next_thread) {
			if (!pthread_create(&thread, NULL, passer_by, NULL))
				pthread_detach(thread);
			next_thread = now() + between;
		}
		nanosleep(&pause, NULL);
		if (argc > 2 && now() > next) {
			char part[4096]; /* a reader of FILE always finds a complete one */
			snprintf(part, sizeof part, "%s.part", argv[2]);
			FILE *file = fopen(part, "w");
			if (file) {
				tell(file, cpus);
				fclose(file);
				rename(part, argv[2]);
			}
			next = now() + 1;
		}
	}
	over = 1;
	tell(stdout, cpus);
	return 0;
}
