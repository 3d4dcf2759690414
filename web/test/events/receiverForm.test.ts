import { describe, expect, it } from 'vitest';
import { KINDS, kindLabel, NEW_RECEIVER, receiverBody, receiverFormOf, receiverProblem, type ReceiverForm } from '../../src/lib/events/receiverForm';

const slack: ReceiverForm = { ...NEW_RECEIVER, name: 'chat', values: { url: 'https://hooks.example/x' } };

describe('the form of a receiver', () => {
  it('is sent with the secrets apart', () => {
    expect(receiverBody({ ...slack, matchers: 'severity="page", host!~"test.*"', subject: ' ', text: '{{ $rule }}', repeat: '1h' })).toEqual({
      matchers: ['severity="page"', 'host!~"test.*"'],
      send_resolved: true,
      sample_line: false,
      repeat_interval: '1h',
      text: '{{ $rule }}',
      slack: {},
      secrets: { url: 'https://hooks.example/x' },
    });
    const mail: ReceiverForm = { ...NEW_RECEIVER, name: 'm', kind: 'email', values: { server: 'm:587', from: 'a@b.c', to: 'd@e.f, ,g@h.i', user: 'u', password: 'p' } };
    expect(receiverBody(mail)).toMatchObject({ email: { server: 'm:587', from: 'a@b.c', to: ['d@e.f', 'g@h.i'], user: 'u' }, secrets: { password: 'p' } });
    expect(receiverBody({ ...NEW_RECEIVER, kind: 'ntfy', values: { topic: 'x', priority: '5' } })).toMatchObject({ ntfy: { topic: 'x', priority: 5 } });
    // A webhook makes its texts itself.
    expect(receiverBody({ ...slack, kind: 'webhook', text: 'x' })).not.toHaveProperty('text');
  });

  it('shows what the server has, and sends the same back', () => {
    const kept = { name: 'room', matchers: ['severity="page"'], repeat_interval: '2h', send_resolved: false, sample_line: true, later: 1, matrix: { url: 'https://m', room: '!r:m' }, secrets: ['token'] };
    const form = receiverFormOf(kept);
    expect(form).toMatchObject({ name: 'room', kind: 'matrix', kept: ['token'], repeat: '2h', sendsResolved: false, hasLine: true });
    expect(receiverProblem(form)).toBeNull();
    const { name: _, ...rest } = kept;
    expect(receiverBody(form)).toEqual({ ...rest, secrets: {} });
  });

  it('says what is missing', () => {
    expect(receiverProblem(slack)).toBeNull();
    for (const [form, part] of [
      [{ ...slack, name: 'Chat' }, 'lower-case'],
      [{ ...slack, name: '' }, 'lower-case'],
      [{ ...slack, values: {} }, 'Address of the webhook'],
      [{ ...slack, kind: 'pagerduty', values: {} }, 'Integration key'],
      [{ ...slack, matchers: 'severity=' }, 'Write which alerts'],
    ] as const) {
      expect(receiverProblem(form as ReceiverForm)).toContain(part);
    }
    expect(receiverProblem({ ...slack, values: {}, kept: ['url'] })).toBeNull();
  });

  it('names every kind once', () => {
    expect(new Set(KINDS.map((one) => one.kind)).size).toBe(KINDS.length);
    expect(kindLabel('teams')).toBe('Microsoft Teams');
    expect(kindLabel('later')).toBe('later');
  });
});
