import { expect, test } from 'vitest';
import { storedTenant, type Tenant } from './tenant.ts';

const TENANT: Tenant = {
  id: 'acme',
  displayName: 'Acme',
  region: 'here',
  clusters: ['tenant-a-a'],
  createdAt: 1,
};

test('a tenant that an earlier release has stored keeps the customers that its metadata pinned', () => {
  const old = { ...TENANT, stripeCustomerId: 'cus_1', metronomeCustomerId: 'uuid-1' };
  const stored = JSON.parse(JSON.stringify(old)) as Tenant;
  const customerIds = { stripe: 'cus_1', metronome: 'uuid-1' };
  expect(storedTenant(stored)).toMatchObject({ ...TENANT, customerIds });
  const again = JSON.parse(JSON.stringify(storedTenant(stored))) as Tenant;
  expect(storedTenant(again).customerIds).toStrictEqual(customerIds);
});

test('a tenant as it is stored now is left as it is', () => {
  const tenant = { ...TENANT, customerIds: { stripe: 'cus_1' } };
  expect(storedTenant(tenant)).toBe(tenant);
  expect(storedTenant(TENANT)).toBe(TENANT);
});
