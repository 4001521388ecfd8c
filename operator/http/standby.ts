import type { Registry } from 'prom-client';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createPlainApp, refusePath } from './create-app.ts';
import type { Answering } from './front.ts';
import { tryLater } from './problem.ts';
import { healthRoutes, probeRoutes } from './routes/health.ts';
import type { ReadinessCheck } from './views.ts';

const RETRY_AFTER_SECONDS = 5;

/**
 * The handlers of a process that is not the leader: health and metrics. Everything else is 503 with
 * `Retry-After`.
 */
export function createStandbyAnswers({
  readiness,
  metrics,
  ...context
}: {
  readonly readiness: () => readonly ReadinessCheck[];
  readonly metrics: Registry;
  readonly logger: Logger;
  readonly clock: Clock;
}): Answering {
  const views = { readiness, leads: () => false };
  return {
    main: createPlainApp(healthRoutes({ views, metrics }), context, () => {
      const what = 'this process is a standby: another one leads, or is about to';
      throw tryLater(503, RETRY_AFTER_SECONDS, `${what}: nothing was done: try again`);
    }),
    probe: createPlainApp(probeRoutes({ views }), context, refusePath),
  };
}
