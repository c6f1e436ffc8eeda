//! `channel_halves!`: the part of a channel's interface that [`mpsc`](super::mpsc) and
//! [`threadsafe`](super::threadsafe) share.
//!
//! The two differ in the pointer to the channel (`Rc` or `Arc`), in the cell of its queue, and in the functions that
//! wait. Those functions, and the structs `Sender`, `UnboundedSender` and `Receiver`, are in the modules themselves.

/// Expands to the shared items. `$module` is the name of the calling module, for the examples. `$Strong` and `$Weak`
/// are the pointers to its `Channel<T>`, whose queue is a `$Queue<T>`. `$threads` documents `Send` and `Sync`.
macro_rules! channel_halves {
    ($module:literal, $Strong:ident, $Weak:ident, $Queue:ident, $threads:literal) => {
        impl<T> Sender<T> {
            /// Sends a value if the channel is not full, without waiting. [`TrySendError`] returns the value and the
            /// reason.
            ///
            /// ```
            #[doc = concat!("use mainspring::sync::", $module, "::{TrySendError, channel};")]
            ///
            /// let (sender, receiver) = channel(1);
            /// assert_eq!(sender.try_send(1), Ok(()));
            /// assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
            /// drop(receiver);
            /// assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
            /// ```
            pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
                self.channel.queue.put_nowait(value).map_err(TrySendError::from)
            }

            /// Whether the receiver was dropped, or has closed the channel.
            ///
            /// ```
            #[doc = concat!("let (sender, mut receiver) = mainspring::sync::", $module, "::channel::<()>(1);")]
            /// assert!(!sender.is_closed());
            /// receiver.close();
            /// assert!(sender.is_closed());
            /// ```
            pub fn is_closed(&self) -> bool {
                self.channel.is_closed()
            }

            /// Waits until the receiver is dropped, or closes the channel. The wait does not keep the loop alive.
            ///
            /// Cancel safety: nothing is lost.
            ///
            /// ```
            /// # mainspring::run(async {
            #[doc = concat!("let (sender, receiver) = mainspring::sync::", $module, "::channel::<()>(1);")]
            /// mainspring::spawn(async move { drop(receiver) });
            /// sender.closed().await;
            /// assert!(sender.is_closed());
            /// # })?;
            /// # Ok::<(), mainspring::Error>(())
            /// ```
            pub async fn closed(&self) {
                self.channel.closed().await;
            }

            /// The number of values that can be sent now. Slots reserved by a [`Permit`] do not count.
            ///
            /// ```
            #[doc = concat!("let (sender, _receiver) = mainspring::sync::", $module, "::channel(3);")]
            /// sender.try_send('a').unwrap();
            /// assert_eq!((sender.capacity(), sender.max_capacity()), (2, 3));
            /// ```
            pub fn capacity(&self) -> usize {
                self.channel.capacity()
            }

            /// The number of values that fit into the empty channel.
            pub fn max_capacity(&self) -> usize {
                self.channel.max_capacity()
            }

            /// Reserves a slot for one value if the channel is not full. [`TrySendError`] is the reason otherwise.
            ///
            /// ```
            #[doc = concat!("use mainspring::sync::", $module, "::{TrySendError, channel};")]
            ///
            /// let (sender, mut receiver) = channel(1);
            /// let permit = sender.try_reserve().unwrap();
            /// assert_eq!(sender.try_reserve().map(drop), Err(TrySendError::Full(())));
            /// permit.send(1);
            /// assert_eq!(receiver.try_recv(), Ok(1));
            /// drop(receiver);
            /// assert_eq!(sender.try_reserve().map(drop), Err(TrySendError::Closed(())));
            /// ```
            pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
                self.channel.queue.reserve_nowait()?;
                Ok(Permit { slot: self.channel.reserved_slot() })
            }

            /// A sender that does not keep the channel open.
            ///
            /// ```
            #[doc = concat!("let (sender, receiver) = mainspring::sync::", $module, "::channel::<()>(1);")]
            /// let weak = sender.downgrade();
            /// assert!(weak.upgrade().is_some_and(|sender| !sender.is_closed()));
            /// drop(receiver);
            /// assert!(weak.upgrade().is_some_and(|sender| sender.is_closed()));
            /// ```
            pub fn downgrade(&self) -> WeakSender<T> {
                WeakSender { channel: $Strong::downgrade(&self.channel) }
            }
        }

        impl<T> UnboundedSender<T> {
            /// Sends a value. [`SendError`] returns the value if the receiver was dropped, or has closed the channel.
            ///
            /// ```
            #[doc = concat!("use mainspring::sync::", $module, "::{SendError, unbounded_channel};")]
            ///
            /// let (sender, receiver) = unbounded_channel();
            /// assert_eq!(sender.send(1), Ok(()));
            /// drop(receiver);
            /// assert_eq!(sender.send(2), Err(SendError(2)));
            /// ```
            pub fn send(&self, value: T) -> Result<(), SendError<T>> {
                self.sender.try_send(value).map_err(|refused| SendError(refused.into_inner()))
            }

            /// Whether the receiver was dropped, or has closed the channel.
            pub fn is_closed(&self) -> bool {
                self.sender.is_closed()
            }

            /// Waits until the receiver is dropped, or closes the channel. See [`Sender::closed`].
            ///
            /// Cancel safety: nothing is lost.
            ///
            /// ```
            /// # mainspring::run(async {
            #[doc = concat!("let (sender, receiver) = mainspring::sync::", $module, "::unbounded_channel::<()>();")]
            /// mainspring::spawn(async move { drop(receiver) });
            /// sender.closed().await;
            /// assert!(sender.is_closed());
            /// # })?;
            /// # Ok::<(), mainspring::Error>(())
            /// ```
            pub async fn closed(&self) {
                self.sender.closed().await;
            }

            /// A sender that does not keep the channel open.
            ///
            /// ```
            #[doc = concat!("let (sender, _receiver) = mainspring::sync::", $module, "::unbounded_channel::<()>();")]
            /// let weak = sender.downgrade();
            /// assert!(weak.upgrade().is_some());
            /// drop(sender);
            /// assert!(weak.upgrade().is_none());
            /// ```
            pub fn downgrade(&self) -> WeakUnboundedSender<T> {
                WeakUnboundedSender { sender: self.sender.downgrade() }
            }
        }

        impl<T> Receiver<T> {
            /// The next value if there is one. [`TryRecvError`] is the reason otherwise.
            ///
            /// ```
            #[doc = concat!("use mainspring::sync::", $module, "::{TryRecvError, channel};")]
            ///
            /// let (sender, mut receiver) = channel(1);
            /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
            /// sender.try_send('a').unwrap();
            /// drop(sender);
            /// assert_eq!(receiver.try_recv(), Ok('a'));
            /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
            /// ```
            pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
                self.channel.queue.get_nowait().map_err(TryRecvError::from)
            }

            /// Closes the channel: it takes no more values. Values that were sent can still be received. So can the
            /// value of each [`Permit`]: the channel ends only after all are used or dropped.
            ///
            /// ```
            #[doc = concat!("use mainspring::sync::", $module, "::{TryRecvError, TrySendError, channel};")]
            ///
            /// let (sender, mut receiver) = channel(2);
            /// sender.try_send("in time").unwrap();
            /// receiver.close();
            /// assert_eq!(sender.try_send("late"), Err(TrySendError::Closed("late")));
            /// assert_eq!(receiver.try_recv(), Ok("in time"));
            /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
            /// ```
            pub fn close(&mut self) {
                self.channel.close();
            }

            /// The number of values that were sent and not received.
            ///
            /// ```
            #[doc = concat!("let (sender, receiver) = mainspring::sync::", $module, "::channel(2);")]
            /// assert!(receiver.is_empty());
            /// sender.try_send('a').unwrap();
            /// assert_eq!(receiver.len(), 1);
            /// ```
            pub fn len(&self) -> usize {
                self.channel.len()
            }

            /// Whether all values that were sent are received.
            pub fn is_empty(&self) -> bool {
                self.channel.is_empty()
            }
        }

        /// A slot for one value, reserved by [`Sender::reserve`] or [`Sender::try_reserve`]. Dropping it passes the
        /// slot to the next waiter.
        #[doc = $threads]
        ///
        /// ```
        #[doc = concat!("use mainspring::sync::", $module, ";")]
        ///
        /// # mainspring::run(async {
        #[doc = concat!("let (sender, mut receiver) = ", $module, "::channel(1);")]
        /// let permit = sender.reserve().await.unwrap();
        /// assert_eq!(sender.capacity(), 0);
        /// drop(permit);
        /// assert_eq!(sender.capacity(), 1);
        /// sender.reserve().await.unwrap().send("hello");
        /// assert_eq!(receiver.recv().await, Some("hello"));
        /// # })?;
        /// # Ok::<(), mainspring::Error>(())
        /// ```
        #[must_use = "the slot is released when this is dropped"]
        pub struct Permit<'a, T> {
            slot: ReservedSlot<'a, $Queue<T>>,
        }

        impl<T> Permit<'_, T> {
            /// Sends a value into the reserved slot, even if the receiver has [closed](Receiver::close) the channel
            /// since. If the receiver was dropped, the value is dropped.
            ///
            /// ```
            #[doc = concat!("let (sender, mut receiver) = mainspring::sync::", $module, "::channel(1);")]
            /// let permit = sender.try_reserve().unwrap();
            /// receiver.close();
            /// permit.send("promised");
            /// assert_eq!(receiver.try_recv(), Ok("promised"));
            /// ```
            pub fn send(self, value: T) {
                self.slot.send(value);
            }
        }

        /// A [`Sender`] that does not keep the channel open, for a task that sends only while others do: for example
        /// one that sends more work to the channel's own receiver.
        #[doc = $threads]
        ///
        /// ```
        #[doc = concat!("use mainspring::sync::", $module, ";")]
        ///
        /// # mainspring::run(async {
        #[doc = concat!("let (sender, mut receiver) = ", $module, "::channel(1);")]
        /// let weak = sender.downgrade();
        /// weak.upgrade().unwrap().send(1).await.unwrap();
        /// drop(sender);
        /// assert!(weak.upgrade().is_none());
        /// assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), None));
        /// # })?;
        /// # Ok::<(), mainspring::Error>(())
        /// ```
        pub struct WeakSender<T> {
            channel: $Weak<Channel<T>>,
        }

        /// An [`UnboundedSender`] that does not keep the channel open.
        #[doc = $threads]
        ///
        /// ```
        #[doc = concat!("let (sender, mut receiver) = mainspring::sync::", $module, "::unbounded_channel();")]
        /// let weak = sender.downgrade();
        /// weak.clone().upgrade().unwrap().send(1).unwrap();
        /// drop(sender);
        /// assert!(weak.upgrade().is_none());
        /// assert_eq!(receiver.try_recv(), Ok(1));
        /// ```
        pub struct WeakUnboundedSender<T> {
            sender: WeakSender<T>,
        }

        impl<T> WeakSender<T> {
            /// A sender that keeps the channel open. `None` if no sender is left, because the channel has ended then.
            ///
            /// ```
            #[doc = concat!("let (sender, _receiver) = mainspring::sync::", $module, "::channel::<()>(1);")]
            /// let weak = sender.downgrade();
            /// let other = weak.upgrade().unwrap();
            /// drop(sender);
            /// assert!(weak.upgrade().is_some());
            /// drop(other);
            /// assert!(weak.upgrade().is_none());
            /// ```
            pub fn upgrade(&self) -> Option<Sender<T>> {
                let channel = self.channel.upgrade()?;
                channel.senders.add_unless_zero().then(|| Sender { channel })
            }
        }

        impl<T> WeakUnboundedSender<T> {
            /// A sender that keeps the channel open. `None` if no sender is left. See [`WeakSender::upgrade`].
            pub fn upgrade(&self) -> Option<UnboundedSender<T>> {
                self.sender.upgrade().map(|sender| UnboundedSender { sender })
            }
        }

        impl<T> Clone for Sender<T> {
            fn clone(&self) -> Self {
                self.channel.senders.add();
                Sender { channel: $Strong::clone(&self.channel) }
            }
        }

        impl<T> Clone for UnboundedSender<T> {
            fn clone(&self) -> Self {
                UnboundedSender { sender: self.sender.clone() }
            }
        }

        impl<T> Clone for WeakSender<T> {
            fn clone(&self) -> Self {
                WeakSender { channel: self.channel.clone() }
            }
        }

        impl<T> Clone for WeakUnboundedSender<T> {
            fn clone(&self) -> Self {
                WeakUnboundedSender { sender: self.sender.clone() }
            }
        }

        impl<T> Drop for Sender<T> {
            fn drop(&mut self) {
                self.channel.remove_sender();
            }
        }

        impl<T> Drop for Receiver<T> {
            fn drop(&mut self) {
                self.stop_waiting();
                self.channel.abandon();
            }
        }

        impl<T> fmt::Debug for Sender<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Sender").field("channel", &self.channel).finish_non_exhaustive()
            }
        }

        impl<T> fmt::Debug for UnboundedSender<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("UnboundedSender").field("channel", &self.sender.channel).finish_non_exhaustive()
            }
        }

        impl<T> fmt::Debug for Receiver<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Receiver").field("channel", &self.channel).finish_non_exhaustive()
            }
        }

        impl<T> fmt::Debug for Permit<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Permit").field("channel", &self.slot).finish_non_exhaustive()
            }
        }

        impl<T> fmt::Debug for WeakSender<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("WeakSender").finish_non_exhaustive()
            }
        }

        impl<T> fmt::Debug for WeakUnboundedSender<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("WeakUnboundedSender").finish_non_exhaustive()
            }
        }
    };
}

pub(super) use channel_halves;
