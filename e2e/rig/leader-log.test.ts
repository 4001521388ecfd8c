import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { reportsToLead } from './leader-log.ts';

test.each([
  ['leads', { '/leaderz': [200, 'ok'] }, true],
  ['waits', { '/leaderz': [503, 'another process leads'] }, false],
  [
    'leads, and has only the metric',
    { '/metrics': [200, '# HELP x\nmeterfeed_leading 1\n'] },
    true,
  ],
  ['waits, and has only the metric', { '/metrics': [200, 'meterfeed_leading 0\n'] }, false],
] as const)('a process that %s is taken for one that does not', async (_name, answers, leads) => {
  const server = createServer((request, response) => {
    const known: Readonly<Record<string, readonly [number, string]>> = answers;
    const [status, body] = known[request.url ?? ''] ?? [404, ''];
    response.writeHead(status).end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  expect(await reportsToLead(address)).toBe(leads);
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
  expect(await reportsToLead(address)).toBeUndefined();
});
