import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Delivered } from './receiver.ts';

/*
 * A webhook of a billing system, as a program of its own: takes every batch, and tells its parent when it has answered
 * how many events of which stream and window it had. It shares the processors with what is measured, so it reads no more
 * of a batch than that takes.
 */
const USAGE = '"type":"io.meterfeed.usage.';
const SOURCE = /"source":"([^"]*)",$/;
const TIME = /"time":"([^"]*)"/y;

const server = createServer((request, response) => {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => {
    response.writeHead(200).end('{}');
    const at = Date.now();
    const counts = countsOf(Buffer.concat(pieces).toString('latin1'));
    for (const one of counts) process.send?.({ ...one, at });
  });
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ url: `http://127.0.0.1:${port}/` });
});
process.on('disconnect', () => process.exit());

/** Attributes of an event stand before its data, in the order that the hub writes them in: id, source, type, subject, time. */
function countsOf(batch: string): readonly Omit<Delivered, 'at'>[] {
  const counts = new Map<string, Omit<Delivered, 'at'>>();
  for (let at = batch.indexOf(USAGE); at !== -1; at = batch.indexOf(USAGE, at + 1)) {
    const source = SOURCE.exec(batch.slice(Math.max(0, at - 100), at))?.[1] ?? '';
    TIME.lastIndex = batch.indexOf('"time":"', at);
    const windowStart = TIME.exec(batch)?.[1] ?? '';
    const key = `${source} ${windowStart}`;
    counts.set(key, { source, windowStart, events: (counts.get(key)?.events ?? 0) + 1 });
  }
  return [...counts.values()];
}
