import { randomUUID } from 'node:crypto';
import { Consumer, MessagesStreamModes, stringDeserializers } from '@platformatic/kafka';
import type { ReadRecord } from './bill.ts';

const LATEST = -1n;

/** Every record of a topic from its beginning, partition after partition and each in its order. */
export async function readTopic(
  bootstrapBrokers: readonly string[],
  topic: string,
): Promise<readonly ReadRecord[]> {
  const consumer = new Consumer({
    clientId: 'faults-reader',
    groupId: randomUUID(),
    bootstrapBrokers: [...bootstrapBrokers],
    deserializers: stringDeserializers,
    maxWaitTime: 100,
    autocommit: false,
  });
  try {
    const ends = await consumer.listOffsets({ topics: [topic], timestamp: LATEST });
    // Nothing is deleted and nothing is a transaction, so that offsets are counts.
    const count = (ends.get(topic) ?? []).reduce((sum, end) => sum + Number(end), 0);
    const found: (ReadRecord & { readonly partition: number; readonly offset: bigint })[] = [];
    if (count === 0) return found;
    const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.EARLIEST });
    for await (const { key, value, headers, partition, offset } of stream) {
      found.push({ key, value, headers: Object.fromEntries(headers), partition, offset });
      if (found.length >= count) break;
    }
    return found.toSorted((a, b) => a.partition - b.partition || Number(a.offset - b.offset));
  } finally {
    await consumer.close(true);
  }
}
