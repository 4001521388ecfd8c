import type { Socket } from 'node:net';

/** More than any client sends ahead of its answers; browsers, SDKs and proxies send one. */
export const MOST_REQUESTS_EARLY = 16;

const VERSION = Buffer.from(' HTTP/1.');
/** Of the version and the digit after it. */
const VERSION_LENGTH = VERSION.length + 1;
const CARRIAGE_RETURN = 0x0d;
const NEWLINE = 0x0a;
/** `GET / HTTP/1.1` and `Host:`: what is shorter than so many of them holds no more. */
const SHORTEST_REQUEST = 20;

/**
 * Closes a connection that sends many requests without waiting for an answer (RFC 9112, 9.3.2): of one
 * packet of 64 KiB two thousand would be parsed and answered before anybody else has a turn. It is looked at
 * before it is parsed: afterwards most of the work is done.
 */
export function refusePipelining(socket: Socket, refused: () => void): void {
  socket.prependListener('data', (bytes: Buffer) => {
    if (!hasMoreRequests(bytes)) return;
    refused();
    // The parser has its turn after this: it gives up at the first byte that is none of HTTP.
    bytes.fill(0);
    socket.destroy();
  });
}

/**
 * Whether bytes hold more than {@link MOST_REQUESTS_EARLY} lines that end as the first one of a request does.
 * A body in JSON holds none: there the end of a line is escaped.
 */
function hasMoreRequests(bytes: Buffer): boolean {
  if (bytes.length <= MOST_REQUESTS_EARLY * SHORTEST_REQUEST) return false;
  let requests = 0;
  let at = bytes.indexOf(VERSION);
  while (at !== -1) {
    const next = bytes[at + VERSION_LENGTH];
    if (next === CARRIAGE_RETURN || next === NEWLINE) requests += 1;
    if (requests > MOST_REQUESTS_EARLY) return true;
    at = bytes.indexOf(VERSION, at + VERSION_LENGTH);
  }
  return false;
}
