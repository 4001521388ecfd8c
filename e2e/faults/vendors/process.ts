/** All stand-ins of vendors in a process of their own, so that they outlive the operator under test. */
import { stoodInDestination } from '../destinations.ts';
import type { StandIn } from './stand-in.ts';
import type { VendorAnswer, VendorOrder } from './vendors.ts';

const standIns = new Map<string, StandIn>();

async function obey(order: VendorOrder): Promise<VendorAnswer> {
  if (order.kind === 'open') {
    const standIn = await stoodInDestination(order.name).startStandIn();
    standIns.set(standIn.url, standIn);
    return { kind: 'opened', url: standIn.url };
  }
  const standIn = standIns.get(order.url);
  if (standIn === undefined) throw new Error(`no stand-in at: "${order.url}"`);
  standIns.delete(order.url);
  await standIn.close();
  return { kind: 'billed', billed: standIn.billed(), repeats: standIn.repeats() };
}

process.on('message', ({ id, order }: { readonly id: number; readonly order: VendorOrder }) => {
  void obey(order).then((answer) => process.send?.({ id, answer }));
});
process.once('disconnect', () => process.exit());
