import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { text } from 'node:stream/consumers';
import express from 'express';
import { afterEach, expect, test } from 'vitest';
import { silentLogger } from '../ledger/testing/level-ledger.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { askOthers, forwardingOf } from './forwarding.ts';
import { createErrorHandler } from './problem.ts';
import type { ReplicasView } from './views.ts';

const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

async function listening(server: Server): Promise<string> {
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  return `127.0.0.1:${address.port}`;
}

/** Another replica, which says what it was asked. */
async function other(asked: IncomingMessage[] = []): Promise<string> {
  const server = createServer((request, response) => {
    asked.push(request);
    void text(request).then((body) => {
      response.writeHead(202, { 'Content-Type': 'text/plain', 'X-Answer': 'other' });
      response.end(`${request.method} ${request.url} ${body}`);
    });
  });
  return listening(server);
}

/** One that passes on what the view says, and answers `here` otherwise. */
async function replica(view: ReplicasView | undefined): Promise<string> {
  const app = express();
  app.all('/meter', ...forwardingOf({ answeredBy: 'meter' }, view), (_, response) => {
    response.send('here');
  });
  app.all('/feeder/:name', ...forwardingOf({ answeredBy: 'feeder' }, view), (_, response) => {
    response.send('here');
  });
  app.use(createErrorHandler(silentLogger, systemClock));
  return listening(createServer(app));
}

const at = (address: string): ReplicasView => ({
  meter: () => ({ address }),
  feeder: (name) => (name === 'own' ? 'here' : { address }),
  others: () => [],
});

test('a request goes where it is answered, whole, with the token, and the answer comes back as it is', async () => {
  const asked: IncomingMessage[] = [];
  const here = await replica(at(await other(asked)));
  const answer = await fetch(`http://${here}/meter?a=1`, {
    method: 'POST',
    headers: { Authorization: 'Bearer secret', 'Content-Type': 'application/json' },
    body: '{"b":2}',
  });
  expect([answer.status, answer.headers.get('x-answer'), await answer.text()]).toEqual([
    202,
    'other',
    'POST /meter?a=1 {"b":2}',
  ]);
  expect(asked[0]?.headers).toMatchObject({
    authorization: 'Bearer secret',
    'content-type': 'application/json',
    'x-meterfeed-forwarded': '1',
  });
  expect(await (await fetch(`http://${here}/feeder/own`)).text()).toBe('here');
  expect(await (await fetch(`http://${here}/feeder/another`)).text()).toBe('GET /feeder/another ');
});

test('two replicas that each take the other for the meter do not pass a request to and fro', async () => {
  const places: string[] = [];
  const view = (index: number): ReplicasView => ({
    meter: () => ({ address: places[index] ?? '' }),
    feeder: () => 'here',
    others: () => [],
  });
  places[0] = await replica(view(1));
  places[1] = await replica(view(0));
  const answer = await fetch(`http://${places[0]}/meter`);
  expect(answer.status).toBe(503);
  expect(answer.headers.get('retry-after')).toBe('1');
});

test('a request is answered soon, and says when to come back, where nobody leads or the one that did is gone', async () => {
  const nobody = await replica({
    ...at(''),
    meter: () => 'nowhere',
  });
  expect((await fetch(`http://${nobody}/meter`)).status).toBe(503);
  const gone = await other();
  servers.at(-1)?.close();
  const here = await replica(at(gone));
  const answer = await fetch(`http://${here}/meter`);
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '2']);
});

test('a row of the database sends nobody to what is no replica: metadata services, paths, other schemes', async () => {
  for (const address of [
    '169.254.169.254:80',
    'host:80/path',
    'http://host:80',
    'user@host:80',
    '',
  ]) {
    const here = await replica(at(address));
    expect([address, (await fetch(`http://${here}/meter`)).status]).toEqual([address, 503]);
  }
});

/** One that has nothing of its own, or this, and asks the others. */
async function keeper(own: string | undefined, view: Partial<ReplicasView>): Promise<string> {
  const app = express();
  const replicas = { ...at(''), meter: () => 'here' as const, ...view };
  const route = { answeredBy: 'meter', hasOwn: true } as const;
  app.get('/own', ...forwardingOf(route, replicas), async (request, response) => {
    const found = own ?? (await askOthers(request, replicas));
    response.status(found === undefined ? 410 : 200).send(found ?? 'gone');
  });
  app.use(createErrorHandler(silentLogger, systemClock));
  return listening(createServer(app));
}

test('what one replica alone has is found, whoever is asked, and what none has is gone for all', async () => {
  const dead = await other();
  servers.at(-1)?.close();
  const places: string[] = [];
  const others = () => [...places, dead, '169.254.169.254:80'];
  const meter = await keeper(undefined, { others });
  const elsewhere: Partial<ReplicasView> = { others, meter: () => ({ address: meter }) };
  places.push(meter, await keeper(undefined, elsewhere));
  const ask = async (place: string) => {
    const answer = await fetch(`http://${place}/own`);
    return [answer.status, await answer.text()];
  };
  for (const place of places) expect(await ask(place)).toEqual([410, 'gone']);
  places.push(await keeper('kept', elsewhere));
  // The one that has it passes it to the meter too, which asks all that there are.
  for (const place of places) expect(await ask(place)).toEqual([200, 'kept']);
});

test('a single process passes nothing on', async () => {
  const here = await replica(undefined);
  expect(await (await fetch(`http://${here}/meter`)).text()).toBe('here');
});
