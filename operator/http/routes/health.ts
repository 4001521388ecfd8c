import type { ReadinessCheck, Views } from '../views.ts';
import { oncePerTick } from '../once-per-tick.ts';
import { readChoice, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';

/** /healthz, /readyz, /leaderz and /metrics: for probes and scrapers, without a token. */
export function healthRoutes(
  context: ProbedContext & Pick<RouteContext, 'metrics'>,
): readonly Route[] {
  const { metrics } = context;
  // Anyone who reaches the port may send the request, and rendering takes some milliseconds.
  const render = oncePerTick(() => metrics.metrics());
  return [
    ...probeRoutes(context),
    {
      method: 'get',
      path: '/metrics',
      access: 'open',
      hub: 'all',
      summary: 'metrics in the Prometheus text format',
      handlers: [
        async (_request, response) => {
          response.set('Content-Type', metrics.contentType).send(await render());
        },
      ],
    },
  ];
}

/** The views behind the probes. */
interface ProbedContext {
  readonly views: Pick<Views, 'readiness' | 'leads'>;
}

/** /healthz, /readyz and /leaderz: at LISTEN_ADDR, and at PROBE_ADDR, which serves only these. */
export function probeRoutes({ views }: ProbedContext): readonly Route[] {
  return [
    {
      method: 'get',
      path: '/healthz',
      access: 'open',
      hub: 'all',
      summary: 'liveness: the process answers',
      handlers: [
        (_request, response) => {
          response.type('text/plain').send('ok\n');
        },
      ],
    },
    {
      method: 'get',
      path: '/readyz',
      access: 'open',
      hub: 'all',
      summary: 'readiness; ?verbose lists the checks',
      handlers: [
        (request, response) => {
          const verbose = isVerbose(request);
          const checks = views.readiness();
          const failed = checks.find((check) => !check.ok);
          const text = verbose ? checks.map(checkLine).join('') : shortText(failed);
          response
            .status(failed === undefined ? 200 : 503)
            .type('text/plain')
            .send(text);
        },
      ],
    },
    {
      method: 'get',
      path: '/leaderz',
      access: 'open',
      hub: 'all',
      summary: 'for load balancers: 200 on the leader, 503 on a standby',
      handlers: [
        (_request, response) => {
          const leads = views.leads?.() ?? true;
          response
            .status(leads ? 200 : 503)
            .type('text/plain')
            .send(leads ? 'leader\n' : 'standby\n');
        },
      ],
    },
  ];
}

/** Both `?verbose` and `?verbose=true` ask for the list. */
function isVerbose(request: Parameters<typeof readQuery>[0]): boolean {
  const query = readQuery(request, ['verbose']);
  return 'verbose' in request.query && readChoice(query, 'verbose', ['true', 'false']) === 'true';
}

function shortText(failed: ReadinessCheck | undefined): string {
  return failed === undefined ? 'ok\n' : `${failed.detail ?? `${failed.name} failed`}\n`;
}

function checkLine({ name, ok, detail }: ReadinessCheck): string {
  const suffix = detail === undefined ? '' : `: ${detail}`;
  return `${ok ? '[+]' : '[-]'} ${name} ${ok ? 'ok' : 'failed'}${suffix}\n`;
}
