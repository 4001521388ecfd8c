import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { createIntakeMetrics } from './intake-metrics.ts';

test('a sender that changes its name with each request makes no series without end', async () => {
  const registry = new Registry();
  const stats = { entries: 0, openSums: 0, closedUntil: 0 };
  const metrics = createIntakeMetrics(registry, () => stats);
  for (let index = 0; index < 300; index += 1) {
    metrics.accepted(`client-${index}`, 1, 1);
    metrics.repeated(`client-${index}`, 1);
    metrics.refused(`client-${index}`, 'time');
  }
  const text = await registry.metrics();
  const clients = new Set([...text.matchAll(/client="([^"]+)"/g)].map(([, client]) => client));
  expect(clients.size).toBe(201);
  expect(text).toContain('meterfeed_intake_requests_total{client="other",outcome="accepted"} 100');
  expect(text).toContain('meterfeed_intake_late_total{client="other"} 100');
  expect(text).toContain('meterfeed_intake_refused_total{client="other",cause="time"} 100');
});
