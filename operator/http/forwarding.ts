import {
  Agent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as ask,
  type RequestOptions,
} from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { Request, RequestHandler, Response } from 'express';
import { addressProblem, createGuardedLookup } from '../outbound/address-guard.ts';
import { Problem, tryLater } from './problem.ts';
import { pathParameter } from './query.ts';
import type { Route } from './route.ts';
import type { ReplicasView, Whereabouts } from './views.ts';

/** Says that a replica has passed a request on: it is not passed on once more, so that none goes round in a circle. */
const FORWARDED = 'x-meterfeed-forwarded';
/** Its value where each replica is asked for what it has itself. */
const OWN = 'own';

const OTHERS_TIMEOUT_MS = 10_000;

/** Of one connection each (RFC 9110, section 7.6.1), and what the next one says of itself. */
const NOT_PASSED_ON = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'host',
]);

const ADDRESS = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+)):(\d{1,5})$/i;
const CONNECT_TIMEOUT_MS = 2_000;
const agent = new Agent({ keepAlive: true, timeout: 60_000 });
const lookup = createGuardedLookup();

/** Passes a request on where another replica answers it, with the caller's token; after this one has let the caller in. */
export function forwardingOf(
  { answeredBy, hasOwn }: Pick<Route, 'answeredBy' | 'hasOwn'>,
  replicas: ReplicasView | undefined,
): readonly RequestHandler[] {
  if (replicas === undefined || answeredBy === undefined) return [];
  const whereabouts = (request: Request): Whereabouts => {
    if (answeredBy === 'meter') return replicas.meter();
    return replicas.feeder(pathParameter(request, 'name'));
  };
  return [
    async (request, response, next) => {
      const where =
        hasOwn === true && request.get(FORWARDED) === OWN ? 'here' : whereabouts(request);
      if (where === 'here') next();
      else await forward(request, response, where);
    },
  ];
}

/**
 * Has another replica answer. `body` is that of a request whose body has been read here. Throws the {@link Problem} where
 * nobody answers.
 */
export async function forward(
  request: Request,
  response: Response,
  where: Exclude<Whereabouts, 'here'>,
  body?: Buffer,
): Promise<void> {
  if (where === 'nowhere') throw nobody();
  if (request.get(FORWARDED) !== undefined) throw elsewhere();
  const to = targetOf(where.address);
  if (to === undefined) throw elsewhere();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const headers = { ...passedOn(request.headers), [FORWARDED]: '1' };
  const { method, originalUrl: path } = request;
  const asked = ask({ ...to, method, path, headers, agent, lookup });
  const connecting = setTimeout(() => asked.destroy(), CONNECT_TIMEOUT_MS);
  asked.once('socket', (socket) => {
    const connected = (): void => clearTimeout(connecting);
    if (socket.connecting) socket.once('connect', connected);
    else connected();
  });
  asked.once('response', (answer) => {
    response.status(answer.statusCode ?? 502).set(passedOn(answer.headers));
    answer.pipe(response);
    answer.once('error', () => response.destroy());
  });
  asked.on('error', () => {
    clearTimeout(connecting);
    reject(unreachable());
  });
  response.once('close', () => {
    asked.destroy();
    resolve();
  });
  if (body === undefined) request.pipe(asked);
  else asked.end(body);
  await promise;
}

/**
 * The first good answer that other replicas give out of what they have themselves; undefined where none has one. Asked by a request
 * for a route that says `hasOwn`, and not by one that another replica asks in this way.
 */
export async function askOthers(
  request: Request,
  replicas: Pick<ReplicasView, 'others'> | undefined,
): Promise<Buffer | undefined> {
  if (request.get(FORWARDED) === OWN) return undefined;
  const answers = (replicas?.others() ?? []).map((address) => answerOf(request, address));
  return (await Promise.all(answers)).find((answer) => answer !== undefined);
}

/** The body of a good answer; undefined where it is another one, or there is none. */
async function answerOf(request: Request, address: string): Promise<Buffer | undefined> {
  const to = targetOf(address);
  if (to === undefined) return undefined;
  const { 'accept-encoding': _, ...headers } = passedOn(request.headers);
  const { method, originalUrl: path } = request;
  const signal = AbortSignal.timeout(OTHERS_TIMEOUT_MS);
  const own = { ...headers, [FORWARDED]: OWN };
  try {
    const asked = ask({ ...to, method, path, headers: own, agent, lookup, signal }).end();
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      asked.once('response', resolve).once('error', reject);
    });
    const body = await buffer(answer);
    return answer.statusCode === 200 ? body : undefined;
  } catch {
    // It is gone, or will be: what it has is as good as lost.
    return undefined;
  }
}

/** Only addresses that a replica may have: what the database says is not asked for anything else. */
function targetOf(address: string): Pick<RequestOptions, 'host' | 'port'> | undefined {
  const match = ADDRESS.exec(address);
  if (match === null) return undefined;
  const [, bracketed, plain = '', port] = match;
  const host = bracketed ?? plain;
  return addressProblem(host) === undefined ? { host, port: Number(port) } : undefined;
}

function passedOn(headers: IncomingHttpHeaders): Readonly<Record<string, string | string[]>> {
  const named = new Set(headers.connection?.toLowerCase().split(/\s*,\s*/) ?? []);
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined || NOT_PASSED_ON.has(name) || named.has(name) ? [] : [[name, value]],
    ),
  );
}

function nobody(): Problem {
  return tryLater(503, 2, 'no replica leads at the moment: another one takes over: try again');
}

function elsewhere(): Problem {
  return tryLater(503, 1, 'another replica answers this by now: nothing was changed: try again');
}

function unreachable(): Problem {
  const what = 'the replica that answers this cannot be reached';
  return tryLater(503, 2, `${what}: what became of the request is not known: try again`);
}
