import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseBatch, USAGE_EVENT_PREFIX } from './batch.ts';
import { openReceivedLog, type ReceivedLog } from './received-log.ts';
import { RefusalLog } from './refusal-log.ts';
import { refuseSignature, SIGNATURE_HEADER } from './signature.ts';

export interface ReceiverOptions {
  /** Usage events that were accepted, one JSON object a line. */
  readonly file: string;
  /** Requests must be signed with it; undefined takes unsigned ones. */
  readonly secret?: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Plays a receiver in trouble; absent, it behaves. */
  readonly refusal?: Refusal;
  /** Told what was refused and why, each reason at once and then at most every ten seconds. */
  readonly log?: (line: string) => void;
}

/** Answers `status` to every request whose body contains the text; the empty text is in all of them. */
export interface Refusal {
  readonly status: number;
  readonly containing: string;
}

export interface ReceiverStats {
  readonly batches: number;
  readonly accepted: number;
  /** Came again with the same content. */
  readonly duplicates: number;
  /** Came again with other content: the sender contradicts itself. */
  readonly conflicts: number;
  readonly refused: number;
}

export interface Receiver {
  /** Where to post batches. */
  readonly url: string;
  stats(): ReceiverStats;
  stop(): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  /** Why it was refused. */
  readonly error?: string;
}

/** A CloudEvents consumer on the loopback address; GET answers its statistics. */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const log = openReceivedLog(options.file);
  const refusals = new RefusalLog(options.log);
  const counts = { batches: 0, accepted: 0, duplicates: 0, conflicts: 0, refused: 0 };
  const server = createServer((request, response) => {
    void readBody(request).then(
      (body) => {
        const answer = handle(request, body, options, log, counts);
        if (answer.error !== undefined) refusals.report(answer.status, answer.error, Date.now());
        response.writeHead(answer.status, { 'content-type': 'application/json' });
        response.end(answer.text);
      },
      () => response.destroy(),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    stats: () => ({ ...counts }),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type Counts = { -readonly [key in keyof ReceiverStats]: number };

function handle(
  request: IncomingMessage,
  body: Buffer,
  { secret, refusal }: Pick<ReceiverOptions, 'secret' | 'refusal'>,
  log: ReceivedLog,
  counts: Counts,
): Answer {
  if (request.method === 'GET') return { status: 200, text: JSON.stringify(counts) };
  const refuse = (status: number, error: string): Answer => {
    counts.refused += 1;
    return { status, text: JSON.stringify({ error }), error };
  };
  if (refusal !== undefined && body.includes(refusal.containing)) {
    return refuse(refusal.status, `refused by the set rule: contains "${refusal.containing}"`);
  }
  if (secret !== undefined) {
    const header = request.headers[SIGNATURE_HEADER];
    const signature = Array.isArray(header) ? header.join(',') : header;
    const problem = refuseSignature(signature, body, secret, Date.now());
    if (problem !== undefined) return refuse(401, problem);
  }
  const batch = parseBatch(request.headers['content-type'] ?? '', body.toString('utf8'));
  if (batch.kind === 'refused') return refuse(400, batch.reason);
  counts.batches += 1;
  for (const event of batch.events) {
    if (!event.type.startsWith(USAGE_EVENT_PREFIX)) continue;
    const outcome = log.accept(event);
    if (outcome === 'new') counts.accepted += 1;
    if (outcome === 'duplicate') counts.duplicates += 1;
    if (outcome === 'conflict') counts.conflicts += 1;
  }
  return { status: 200, text: '{}' };
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: AsyncIterable<Buffer> = request;
  return Buffer.concat(await Array.fromAsync(chunks));
}
