import { Agent, request } from 'node:http';
import { quantile } from './quantile.ts';

const CONNECTIONS = 64;

interface SteadyRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Latencies in milliseconds, and how many requests were answered a second. */
export interface SteadyResult {
  readonly p50: number;
  readonly p99: number;
  readonly perSecond: number;
}

/**
 * Sends requests at even intervals, whether or not earlier ones are answered. A latency counts from the moment at which
 * its request was due. Throws unless all answers are 2xx.
 */
export async function steadyLoad(
  port: number,
  { perSecond, seconds }: { readonly perSecond: number; readonly seconds: number },
  next: () => SteadyRequest,
): Promise<SteadyResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const begun = performance.now();
  const answers: Promise<number>[] = [];
  while (performance.now() - begun < seconds * 1000) {
    const due = begun + (answers.length * 1000) / perSecond;
    const wait = due - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    else answers.push(answered(agent, port, next()).then((at) => at - due));
  }
  const latencies = await Promise.all(answers);
  const took = (performance.now() - begun) / 1000;
  agent.destroy();
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  return { p50, p99, perSecond: latencies.length / took };
}

/** When the answer is complete, as `performance.now()` has it. */
function answered(agent: Agent, port: number, one: SteadyRequest): Promise<number> {
  const { method, path, headers, body } = one;
  return new Promise((resolve, reject) => {
    const sent = request({ agent, host: '127.0.0.1', port, method, path, headers }, (response) => {
      const { statusCode = 0 } = response;
      if (statusCode >= 300) reject(new Error(`${path}: HTTP ${statusCode}`));
      response.on('end', () => resolve(performance.now())).resume();
    });
    sent.on('error', reject).end(body);
  });
}
