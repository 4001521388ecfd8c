const API = '/apis/meterfeed.io/v1alpha1';

/** Puts a custom resource onto the simulated API server of a bench; `path` is as `meteringpolicies/default`. */
export async function putCustomResource(
  apiPort: number,
  kind: 'MeteringPolicy' | 'PriceBook',
  path: string,
  spec: object,
): Promise<void> {
  const [, name] = path.split('/');
  const answer = await fetch(`http://127.0.0.1:${apiPort}${API}/${path}`, {
    method: 'PUT',
    body: JSON.stringify({
      apiVersion: 'meterfeed.io/v1alpha1',
      kind,
      metadata: { name, generation: 1, creationTimestamp: '2026-01-01T00:00:00Z' },
      spec,
    }),
  });
  if (!answer.ok) throw new Error(`${path}: HTTP ${answer.status}`);
}
