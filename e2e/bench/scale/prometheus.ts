import type { IncomingMessage, ServerResponse } from 'node:http';

/** Where the stand-in answers queries, below the address of the API server's. */
export const PROMETHEUS_PATH = '/prometheus';

const BYTES = 'container_network_transmit_bytes_total';
const NAMESPACES = /\{namespace=~?"([^"]*)"/;

/**
 * Answers a query as the Prometheus of such a cluster would: every namespace that is asked about has sent
 * bytes, its control plane too, and nobody has GPUs.
 */
export async function answerQuery(
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  const form = new URLSearchParams(body);
  const query = form.get('query') ?? '';
  const result = query.includes(BYTES) ? sumsOf(query, Number(form.get('time'))) : [];
  response.writeHead(200, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify({ status: 'success', data: { resultType: 'vector', result } }));
}

function sumsOf(query: string, at: number): readonly object[] {
  const namespaces = (NAMESPACES.exec(query)?.[1] ?? '').split('|');
  if (!query.includes('namespace=~')) return [{ metric: {}, value: [at, '1073741824'] }];
  return namespaces.flatMap((namespace) => [
    { metric: { namespace }, value: [at, '1073741824'] },
    {
      metric: { namespace, pod: `${namespace.replace('vcluster-', 'cluster-')}-0` },
      value: [at, '4096'],
    },
  ]);
}
