import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isRecord } from '../../../operator/model/is-record.ts';
import type { Delivered } from './receiver.ts';

/*
 * A webhook of a billing system, as a program of its own: takes every batch, and tells its parent when it has answered
 * how many events of which stream and window it had.
 */
const USAGE = 'io.meterfeed.usage.';

const server = createServer((request, response) => {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => {
    const body: unknown = JSON.parse(Buffer.concat(pieces).toString());
    response.writeHead(200).end('{}');
    const at = Date.now();
    for (const one of countsOf(Array.isArray(body) ? body : [body])) process.send?.({ ...one, at });
  });
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ url: `http://127.0.0.1:${port}/` });
});
process.on('disconnect', () => process.exit());

function countsOf(events: readonly unknown[]): readonly Omit<Delivered, 'at'>[] {
  const counts = new Map<string, number>();
  for (const event of events) {
    if (!isRecord(event) || !String(event['type']).startsWith(USAGE)) continue;
    const key = `${String(event['source'])} ${String(event['time'])}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].map(([key, events]) => {
    const [source = '', windowStart = ''] = key.split(' ');
    return { source, windowStart, events };
  });
}
